import type { StampResult } from "../../../src/api/move/stamp.ts";
import { printable } from "../../../src/base/text.ts";
import type { MetadataValue } from "../../../src/model/metadata.ts";
import { ORIGIN_KEY } from "../../../src/model/origin/origin.ts";
import { valueToJson } from "../../../src/operations/inspect.ts";
import { type MetadataChange, typeOf } from "../../../src/operations/stamp.ts";

/** What was edited, or would be. */
export function renderStamp(
  { mode, dryRun }: StampResult,
  { path, changes }: { readonly path: string; readonly changes: readonly MetadataChange[] },
): string {
  if (mode === "nothing") return `${path}: nothing to change`;
  const how = { "in place": "edited in place", rewritten: "rewritten", "new file": "written" }[mode];
  const shown = changes.filter(({ key }) => key !== ORIGIN_KEY);
  const lines = shown.map(({ key, before, after }) => `  ${printable(key)}: ${shorten(before)} -> ${shorten(after)}`);
  const count = `${shown.length} ${shown.length === 1 ? "key" : "keys"}`;
  return [`${path}: ${dryRun ? "would be " : ""}${how}, ${count} changed`, ...lines].join("\n");
}

/** One line for a value of any length. */
function shorten(value: MetadataValue | undefined): string {
  if (value === undefined) return "none";
  if (value.type === "array") return `${typeOf(value)}, ${value.length} elements`;
  const text = printable(JSON.stringify(valueToJson(value)));
  return `${text.length > 60 ? `${text.slice(0, 57)}…` : text} (${value.type})`;
}
