import { UsageError } from "../../src/base/errors.ts";
import { type EnteredValue, parseEntered } from "../../src/operations/stamp.ts";

/** The values of `--set KEY=VALUE`, in the order in which they were typed. */
export function enteredValues(texts: readonly string[] = []): readonly (readonly [string, EnteredValue])[] {
  return texts.map((text) => {
    const at = text.indexOf("=");
    if (at >= 1) return [text.slice(0, at), parseEntered(text.slice(at + 1))] as const;
    const message = `Cannot use --set "${text}": must be KEY=VALUE`;
    throw new UsageError("usage/flag-value", message, { source: "command line" });
  });
}
