import type { MetadataEntry, MetadataValue } from "../../model/metadata.ts";
import { renderMembers, renderValue } from "../../model/metadata-json.ts";

/**
 * JSON as the reference writer renders it: compact, keys sorted by code point, everything beyond ASCII escaped. Maps
 * inside keep their order, since nothing else in the file would tell it. Strings that are not UTF-8 and byte strings
 * have no JSON form; callers keep them out.
 */
export function renderJsonObject(entries: readonly MetadataEntry[]): string {
  return renderMembers(
    [...entries].sort((a, b) => compareCodePoints(a.key, b.key)),
    renderText,
  );
}

export function renderJsonValue(value: MetadataValue): string {
  return renderValue(value, renderText);
}

function renderText(text: string): string {
  return JSON.stringify(text).replace(/[\u0080-\uffff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** JavaScript compares UTF-16 units, which puts code points above U+FFFF before U+E000 … U+FFFF. */
function compareCodePoints(a: string, b: string): number {
  const left = [...a];
  const right = [...b];
  const length = Math.min(left.length, right.length);
  for (let i = 0; i < length; i++) {
    const difference = (left[i]?.codePointAt(0) ?? 0) - (right[i]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}
