/** Names of tensors and entries, and the types of values, as flags and arguments have them. */
export { selectByName } from "../../src/operations/reading/glob.ts";
export {
  FLOAT_CHOICES,
  type FloatChoice,
  floatName,
} from "../../src/operations/reading/view.ts";

/** Globs over the paths of a vault. Slashes at the ends do not matter: listings put one after directories. */
export function entryGlobs(globs: readonly string[]): readonly string[] {
  return globs.map((glob) => glob.replace(/^\/+|\/+$/g, ""));
}
