import type { Bytes } from "../../base/bytes.ts";
import { isTareError, UnsupportedError, UsageError } from "../../base/errors.ts";
import { encodeUtf8, printable } from "../../base/text.ts";
import type { FormatRestamp } from "../../model/capabilities.ts";
import { arrayValue, type MetadataEntry, type MetadataValue, stringValue } from "../../model/metadata.ts";
import {
  decodeGivenJson,
  decodeMetadataJson,
  MAX_GIVEN_VALUES,
  type MetadataJson,
  renderMetadata,
} from "../../model/metadata-json.ts";
import { retypeLike } from "../../model/origin/metadata.ts";
import { ORIGIN_KEY } from "../../model/origin/origin.ts";

/** A value as the user gave it. */
export interface EnteredValue {
  /** By JSON's types. */
  readonly value: MetadataValue;
  /** The typed text, if there is one: text has no types, so a number may be meant as text. */
  readonly text?: string | undefined;
}

/** The text after `KEY=` on a command line: parsed if it is JSON, else taken literally. */
export function parseEntered(text: string): EnteredValue {
  try {
    const { entries, duplicates } = decode(encodeUtf8(`{"":${text}}`), "value");
    const [entry] = entries;
    // `1,"":2` is JSON only because of the braces around it.
    const isOne = entries.length === 1 && duplicates.length === 0 && entry?.key === "";
    if (isOne) return { value: entry.value, text };
  } catch (error) {
    if (!isTareError(error)) throw error;
  }
  return { value: stringValue(text), text };
}

/** The members of the JSON object in a file, each as an edit. */
export function decodeEntered(bytes: Bytes, label: string): readonly (readonly [string, EnteredValue])[] {
  const entries = decodeGivenJson(bytes, placeOf(label));
  return entries.map(({ key, value }) => [key, { value }]);
}

/** Refuses keys that say where tensors are, and the one that conversions keep for themselves. */
export function checkEditable(key: string, fixedKeys: readonly string[], source: string): void {
  if (key !== ORIGIN_KEY && !fixedKeys.includes(key)) return;
  const message = `Cannot edit "${printable(key)}": readers find or check the tensors by it`;
  throw new UsageError("usage/stamp.key", message, { source, path: key });
}

/**
 * The value in the form that the format holds: in the type of the old value if it fits, else in the format's usual
 * type.
 */
export function fitValue(
  key: string,
  entered: EnteredValue,
  before: MetadataValue | undefined,
  values: FormatRestamp["values"],
): MetadataValue {
  const { value, text } = entered;
  if (values === "text") return stringValue(value.type === "string" ? value.value : (text?.trim() ?? render(value)));
  const isScalar = value.type !== "array" && value.type !== "map" && value.type !== "null";
  if (before?.type === "string" && isScalar && text !== undefined) {
    return value.type === "string" ? value : stringValue(text);
  }
  const fitted = before === undefined ? value : retypeLike(value, before);
  if (values === "json") return throughJson(fitted);
  const kept = before !== undefined && typeOf(fitted) === typeOf(before);
  return rounded(kept ? fitted : usualType(key, value));
}

/** "u32", or "array of u32": for people, and to distinguish types. */
export function typeOf(value: MetadataValue): string {
  return value.type === "array" ? `array of ${value.elementType ?? "values"}` : value.type;
}

function decode(bytes: Bytes, source: string): MetadataJson {
  return decodeMetadataJson(bytes, placeOf(source));
}

function placeOf(source: string): Parameters<typeof decodeMetadataJson>[1] {
  return { source, offset: 0, maxValues: MAX_GIVEN_VALUES, what: "the values" };
}

function render(value: MetadataValue): string {
  return renderMetadata([{ key: "", value }]).slice('{"":'.length, -1);
}

/** The value as a reader of JSON will see it. */
function throughJson(value: MetadataValue): MetadataValue {
  const [entry] = decode(encodeUtf8(renderMetadata([{ key: "", value }])), "value").entries;
  return (entry as MetadataEntry).value;
}

/** The types that writers of GGUF use if JSON leaves it open: 32 bits if they suffice. */
function usualType(key: string, value: MetadataValue): MetadataValue {
  switch (value.type) {
    case "i64":
      return integerOf(value.value, value.value >= 0 ? "u32" : "i32");
    case "f64":
      return { type: "f32", value: value.value };
    case "null":
    case "map":
      throw unholdable(key, value.type === "null" ? "null" : "an object");
    case "array":
      return usualArray(key, value.slice());
    default:
      return value;
  }
}

function integerOf(value: number | bigint, type: "u32" | "i32"): MetadataValue {
  const [low, high] = type === "u32" ? [0, 0xffff_ffff] : [-0x8000_0000, 0x7fff_ffff];
  return { type: value >= low && value <= high ? type : "i64", value };
}

function usualArray(key: string, items: readonly MetadataValue[]): MetadataValue {
  const types = new Set(items.map(({ type }) => type));
  const isNumeric = [...types].every((type) => type === "i64" || type === "f64");
  if (types.size === 0) return arrayValue([], "string");
  if (isNumeric && types.has("f64")) {
    return arrayValue(
      items.map((item): MetadataValue => ({ type: "f32", value: Number("value" in item ? item.value : 0) })),
      "f32",
    );
  }
  if (isNumeric) {
    const small = items.map((item) => integerOf("value" in item ? (item.value as number | bigint) : 0, "i32"));
    return small.every(({ type }) => type === "i32") ? arrayValue(small, "i32") : arrayValue(items, "i64");
  }
  const [type] = types;
  if (types.size === 1 && type !== undefined && type !== "map" && type !== "null" && type !== "array") {
    return arrayValue(items, type);
  }
  throw unholdable(key, "an array of values of several types, of arrays or of objects");
}

/** 32-bit floats as they will be read back. */
function rounded(value: MetadataValue): MetadataValue {
  if (value.type === "f32") return { type: "f32", value: Math.fround(value.value) };
  if (value.type !== "array" || value.elementType !== "f32") return value;
  return arrayValue(value.slice().map(rounded), "f32");
}

function unholdable(key: string, what: string): UnsupportedError {
  const message = `Cannot set "${key}": the format has no type for ${what}`;
  return new UnsupportedError("unsupported/stamp.value", message, { source: "metadata", path: key });
}
