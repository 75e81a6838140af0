import { encodeHex } from "../base/hex.ts";
import { JSON_NUMBER } from "./json-number.ts";
import type { MetadataEntry, MetadataValue } from "./metadata.ts";

/** How a format writes text in its JSON: as it is, or everything beyond ASCII escaped. */
export type TextRenderer = (text: string) => string;

/**
 * Entries as a compact JSON object in the order given. Strings that are not UTF-8 and byte strings have no JSON form;
 * callers keep them out. A number that no float holds keeps its digits.
 */
export function renderMembers(entries: readonly MetadataEntry[], renderText: TextRenderer): string {
  const members = entries.map(({ key, value }) => `${renderText(key)}:${renderValue(value, renderText)}`);
  return `{${members.join(",")}}`;
}

/** The same, text as it is. */
export function renderMetadata(entries: readonly MetadataEntry[]): string {
  return renderMembers(entries, JSON.stringify);
}

export function renderValue(value: MetadataValue, renderText: TextRenderer): string {
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
    case "array": {
      const items = value.slice().map((item) => renderValue(item, renderText));
      return `[${items.join(",")}]`;
    }
    case "map":
      return renderMembers(value.entries, renderText);
    default:
      return String(value.value);
  }
}

/** A float stays recognisable as one: 1 becomes 1.0. */
function renderFloat(value: number): string {
  const text = Object.is(value, -0) ? "-0" : String(value);
  return /^-?[0-9]+$/.test(text) ? `${text}.0` : text;
}

/** Equal exactly for equal values: type, width and order included. */
export function fingerprint(value: MetadataValue): string {
  switch (value.type) {
    case "null":
      return "null";
    case "bytes":
      return `bytes ${encodeHex(value.value)}`;
    case "string":
      return value.raw === undefined ? JSON.stringify(value.value) : `raw ${encodeHex(value.raw)}`;
    case "bool":
      return `bool ${value.raw ?? value.value}`;
    case "array":
      return `${value.elementType} [${value.slice().map(fingerprint).join()}]`;
    case "map":
      return `{${value.entries.map((entry) => `${JSON.stringify(entry.key)}:${fingerprint(entry.value)}`).join()}}`;
    default:
      return `${value.type} ${Object.is(value.value, -0) ? "-0" : value.value}`;
  }
}
