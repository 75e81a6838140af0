import type { Format, Head, SniffResult } from "../../model/format.ts";

/** The format's name in a set. The reference writes a space after the colon; other writers need not. */
const NAMED = /"name"\s*:\s*"AEROSET"/;

/** JSON with the name of the format or with both required keys; an index of another format has neither. */
function sniffAeroset({ bytes }: Head): SniffResult {
  const text = new TextDecoder("latin1").decode(bytes);
  if (!/^\s*\{/.test(text)) return "no";
  if (NAMED.test(text)) return "yes";
  // The index comes after the parts, which may fill more than the opening read.
  if (!text.includes('"parts"') || text.includes('"weight_map"')) return "no";
  return text.includes('"global_tidx"') ? "yes" : "possible";
}

/** The names of the files of a set, derived from the name of its JSON. */
export interface SetNames {
  readonly index: string;
  part(number: number): string;
}

/** The specification's name for a set's JSON; the other files then have the specification's names too. */
const SET_FILE_NAME = "model.aeroset.json";

/**
 * "part-000.aero" and "index.aero" next to "model.aeroset.json"; next to "x.aeroset.json" they begin with "x-", so that
 * a folder can hold several sets.
 */
export function planNames(setName: string): SetNames {
  const stem = setName.replace(/(\.aeroset)?\.json$/i, "");
  const prefix = stem === "model" || stem === "" ? "" : `${stem}-`;
  return {
    index: `${prefix}index.aero`,
    // At least three digits, as in the reference (docs/formats/aeroset.md#writing).
    part: (number) => `${prefix}part-${String(number).padStart(3, "0")}.aero`,
  };
}

/** The descriptor of AEROSET v0.1 and v0.2; it loads the other entry files. */
export const aeroset: Format = {
  id: "aeroset",
  name: "AEROSET",
  kind: "model",
  extensions: [".aeroset.json"],
  index: { extensions: [".aeroset.json"], parts: "any name" },
  folderName: SET_FILE_NAME,
  sniff: sniffAeroset,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};
