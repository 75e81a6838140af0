import type { Format, Head, SniffResult } from "../../model/format.ts";

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

/** The names of the files of a set, from the one of its JSON. */
export interface SetNames {
  readonly index: string;
  part(number: number): string;
}

/** What the specification calls the JSON of a set: the files beside it then have the specification's names too. */
export const SET_FILE_NAME = "model.aeroset.json";

/**
 * "part-000.aero" and "index.aero" beside "model.aeroset.json"; beside "x.aeroset.json" they begin with "x-", so that a
 * folder can hold several sets.
 */
export function planNames(setName: string): SetNames {
  const stem = setName.replace(/(\.aeroset)?\.json$/i, "");
  const prefix = stem === "model" || stem === "" ? "" : `${stem}-`;
  return {
    index: `${prefix}index.aero`,
    // Three digits at least, as in the reference (formats/aero.md 3.1).
    part: (number) => `${prefix}part-${String(number).padStart(3, "0")}.aero`,
  };
}

/** AEROSET v0.1 and v0.2: what is known before a file asks for them, and what loads the rest. */
export const aeroset: Format = {
  id: "aeroset",
  name: "AEROSET",
  kind: "model",
  extensions: [".aeroset.json"],
  folderName: SET_FILE_NAME,
  sniff: sniffAeroset,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};
