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
