import type { MetadataEntry, MetadataValue } from "../../model/metadata.ts";
import { JSON_NUMBER } from "./json-number.ts";

/**
 * JSON as the reference writer renders it: compact, keys sorted by code point, everything beyond ASCII escaped. Maps
 * inside keep their order, since nothing else in the file would tell it. Strings that are not UTF-8 and byte strings
 * have no JSON form; callers keep them out.
 */
export function renderJsonObject(entries: readonly MetadataEntry[]): string {
  return renderMembers([...entries].sort((a, b) => compareCodePoints(a.key, b.key)));
}

function renderMembers(entries: readonly MetadataEntry[]): string {
  const members = entries.map(({ key, value }) => `${renderText(key)}:${renderJsonValue(value)}`);
  return `{${members.join(",")}}`;
}

export function renderJsonValue(value: MetadataValue): string {
  if (value.encoded?.encoding === JSON_NUMBER) return new TextDecoder().decode(value.encoded.bytes);
  switch (value.type) {
    case "null":
    case "bytes":
      return "null";
    case "bool":
      return String(value.value);
    case "string":
      return renderText(value.value);
    case "f32":
    case "f64":
      return renderFloat(value.value);
    case "array":
      return `[${value.slice().map(renderJsonValue).join(",")}]`;
    case "map":
      return renderMembers(value.entries);
    default:
      return String(value.value);
  }
}

function renderText(text: string): string {
  return JSON.stringify(text).replace(/[\u0080-\uffff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** A float stays recognisable as one: 1 becomes 1.0. */
function renderFloat(value: number): string {
  const text = Object.is(value, -0) ? "-0" : String(value);
  return /^-?[0-9]+$/.test(text) ? `${text}.0` : text;
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
