import type { Head, SniffResult } from "../../model/format.ts";

/** What a set says of itself; the reference writes it with a space behind the colon, other writers need not. */
const NAMED = /"name"\s*:\s*"AEROSET"/;

/** JSON with the name of the format or with both required keys; an index of another format has neither. */
export function sniffAeroset({ bytes }: Head): SniffResult {
  const text = new TextDecoder("latin1").decode(bytes);
  if (!/^\s*\{/.test(text)) return "no";
  if (NAMED.test(text)) return "yes";
  // The index comes behind the parts, which may fill more than the opening read.
  if (!text.includes('"parts"') || text.includes('"weight_map"')) return "no";
  return text.includes('"global_tidx"') ? "yes" : "possible";
}
