import { UsageError } from "../../src/base/errors.ts";
import { type EnteredValue, parseEntered } from "../../src/operations/stamp.ts";

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

/** The values of `--set KEY=VALUE`, in the order in which they were typed. */
export function enteredValues(texts: readonly string[] = []): readonly (readonly [string, EnteredValue])[] {
  return texts.map((text) => {
    const at = text.indexOf("=");
    if (at >= 1) return [text.slice(0, at), parseEntered(text.slice(at + 1))] as const;
    const message = `Cannot use --set "${text}": must be KEY=VALUE`;
    throw new UsageError("usage/flag-value", message, { source: "command line" });
  });
}
