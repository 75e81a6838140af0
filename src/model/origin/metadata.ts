import { decodeBase64, encodeBase64 } from "../../base/text.ts";
import {
  type ArrayValue,
  arrayValue,
  type EncodedValue,
  Metadata,
  type MetadataEntry,
  type MetadataValue,
  type ValueType,
} from "../metadata.ts";
import { fingerprint } from "../metadata-json.ts";
import type { CarriedEntry, Json, Origin } from "./origin.ts";

/**
 * How metadata of one format is stored in another: natively if the target has a place for it, as text if the target
 * only has strings, and otherwise in `tare.origin`. `restoreMetadata` undoes what `packMetadata` did.
 */

/** How well a target holds a value: exactly; without the width of its numbers, as in JSON; as text; or not at all. */
export type Holding = "native" | "untyped" | "text" | "none";

/** The type in a CarriedEntry for a key that the writer added for its format. It is not metadata of the model. */
const ADDED = "added";

/** Longer values are not repeated in the entry; the writer's own are short. */
const MAX_REPEATED = 128;

/**
 * Marks a key as the writer's own, so that `restoreMetadata` leaves it out. If another program gives the key another
 * value than the writer did, the entry becomes metadata of the model.
 */
export function addedEntry(key: string, value?: MetadataValue): CarriedEntry {
  const text = value === undefined ? undefined : fingerprintOf(value);
  return text === undefined || text.length > MAX_REPEATED ? [key, ADDED] : [key, ADDED, text];
}

function isAsAdded(value: MetadataValue | undefined, text: string | undefined): boolean {
  return text === undefined || value === undefined || fingerprintOf(value) === text;
}

/** Texts of numbers do not say how wide an integer is. */
function fingerprintOf(value: MetadataValue): string {
  const isInteger = /^[iu](?:8|16|32|64)$/.test(value.type) && "value" in value;
  return isInteger ? `integer ${value.value}` : fingerprint(value);
}

export interface PackedMetadata {
  /** What the target stores under its own keys: native values, and strings for "text". */
  readonly native: readonly MetadataEntry[];
  /** For `Origin.entries`; undefined if every value is native. */
  readonly entries: readonly CarriedEntry[] | undefined;
}

export function packMetadata(metadata: Metadata, holding: (entry: MetadataEntry) => Holding): PackedMetadata {
  const native: MetadataEntry[] = [];
  const entries: CarriedEntry[] = [];
  let allNative = true;
  for (const entry of metadata) {
    const how = holding(entry);
    const text = how === "text" ? renderText(entry.value) : undefined;
    if (how === "native") {
      native.push(entry);
      entries.push([entry.key]);
    } else if (how === "untyped") {
      native.push(entry);
      entries.push([entry.key, typeName(entry.value)]);
      allNative = false;
    } else if (text !== undefined) {
      native.push({ key: entry.key, value: { type: "string", value: text } });
      entries.push([entry.key, entry.value.type]);
      allNative = false;
    } else {
      entries.push([entry.key, entry.value.type, ...carry(entry.value)]);
      allNative = false;
    }
  }
  return { native, entries: allNative ? undefined : entries };
}

/** The metadata after restoring. */
export interface RestoredMetadata {
  readonly metadata: Metadata;
  /** Keys whose values `tare.origin` holds in a form that nothing here can read. */
  readonly unreadable: readonly string[];
}

/** Restores the types and places of carried values; keys that were added since come at the end. */
export function restoreMetadata(
  metadata: Metadata,
  origin: Origin,
  decode: (encoded: EncodedValue) => MetadataValue | undefined,
): RestoredMetadata {
  const unreadable: string[] = [];
  if (origin.entries === undefined) return { metadata, unreadable };
  const restored: MetadataEntry[] = [];
  const seen = new Set<string>();
  for (const [key, type, encoding, data] of origin.entries) {
    if (type === ADDED && data === undefined) {
      if (isAsAdded(metadata.get(key), encoding)) seen.add(key);
      continue;
    }
    const value =
      encoding === undefined
        ? retype(metadata.get(key), type)
        : uncarry(type ?? "null", encoding, data ?? null, decode);
    if (value === undefined && encoding !== undefined && !seen.has(key)) unreadable.push(key);
    if (value === undefined || seen.has(key)) continue; // removed since, or of a format whose decoder is not here
    restored.push({ key, value });
    seen.add(key);
  }
  for (const entry of metadata) if (!seen.has(entry.key)) restored.push(entry);
  return { metadata: new Metadata(restored), unreadable };
}

/** Text that `retype` reads back exactly; undefined if there is none. */
function renderText(value: MetadataValue): string | undefined {
  switch (value.type) {
    case "string":
      return value.raw === undefined ? value.value : undefined;
    case "bool":
      return String(value.value);
    case "f32":
    case "f64":
      return Number.isNaN(value.value) ? undefined : Object.is(value.value, -0) ? "-0" : String(value.value);
    case "null":
    case "bytes":
    case "array":
    case "map":
      return undefined;
    default:
      return String(value.value);
  }
}

/** "u32", and "array:u32" for arrays of one type. */
function typeName(value: MetadataValue): string {
  if (value.type !== "array" || value.elementType === undefined) return value.type;
  return `${ARRAY_OF}${value.elementType}`;
}

const ARRAY_OF = "array:";

/** The value that `restoreMetadata` will restore from `held`, which a target stored as "untyped". */
export function retypeLike(held: MetadataValue, original: MetadataValue): MetadataValue {
  return retype(held, typeName(original)) ?? held;
}

/** A native value converted to the type it had; unchanged if it was edited to something else. */
function retype(value: MetadataValue | undefined, type: string | undefined): MetadataValue | undefined {
  if (value === undefined || type === undefined || value.type === type) return value;
  if (value.type === "array") return type.startsWith(ARRAY_OF) ? retypeArray(value, type) : value;
  if ("value" in value && (typeof value.value === "number" || typeof value.value === "bigint")) {
    return retypeNumber(value.value, type) ?? value;
  }
  return value.type === "string" ? retypeText(value, value.value, type) : value;
}

function retypeArray(value: ArrayValue, type: string): MetadataValue {
  const elementType = type.slice(ARRAY_OF.length);
  const items = value.slice().map((item) => retype(item, elementType) as MetadataValue);
  return items.every((item) => item.type === elementType) ? arrayValue(items, elementType as ValueType) : value;
}

function retypeNumber(number: number | bigint, type: string): MetadataValue | undefined {
  if (type === "f32" || type === "f64") return { type, value: Number(number) };
  return Object.is(number, -0) ? undefined : parseInteger(String(number), type);
}

function retypeText(value: MetadataValue, text: string, type: string): MetadataValue {
  if (type === "bool") return text === "true" || text === "false" ? { type, value: text === "true" } : value;
  if (type === "f32" || type === "f64") {
    const number = Number(text);
    return text.trim() === "" || Number.isNaN(number) ? value : { type, value: number };
  }
  return parseInteger(text, type) ?? value;
}

const RANGES: Readonly<Record<string, readonly [bigint, bigint]>> = {
  u8: [0n, 0xffn],
  i8: [-0x80n, 0x7fn],
  u16: [0n, 0xffffn],
  i16: [-0x8000n, 0x7fffn],
  u32: [0n, 0xffff_ffffn],
  i32: [-0x8000_0000n, 0x7fff_ffffn],
  u64: [0n, 0xffff_ffff_ffff_ffffn],
  i64: [-0x8000_0000_0000_0000n, 0x7fff_ffff_ffff_ffffn],
};

function parseInteger(text: string, type: string): MetadataValue | undefined {
  const range = Object.hasOwn(RANGES, type) ? RANGES[type] : undefined;
  if (range === undefined || !/^-?[0-9]{1,20}$/.test(text)) return undefined;
  const value = BigInt(text);
  if (value < range[0] || value > range[1]) return undefined;
  const number = Number(value);
  return { type: type as "u64", value: Number.isSafeInteger(number) ? number : value };
}

/** `[encoding, data]`. Uses the stored bytes if the value has them, so that nothing is decoded on the way. */
function carry(value: MetadataValue): readonly [encoding: string, data: Json] {
  if (value.encoded !== undefined) return [value.encoded.encoding, encodeBase64(value.encoded.bytes)];
  return ["json", toJson(value)];
}

function uncarry(
  type: string,
  encoding: string,
  data: Json,
  decode: (encoded: EncodedValue) => MetadataValue | undefined,
): MetadataValue | undefined {
  if (encoding === "json") return fromJson(data);
  const bytes = typeof data === "string" ? decodeBase64(data) : undefined;
  if (bytes === undefined) return undefined;
  const value = decode({ encoding, bytes });
  return value?.type === type ? value : undefined;
}

/** Typed values as JSON: `{ "u64": "18446744073709551615" }`, arrays and maps nested. */
function toJson(value: MetadataValue): Json {
  switch (value.type) {
    case "null":
      return { null: true };
    case "bool":
      return { bool: value.value };
    case "string":
      return value.raw === undefined ? { string: value.value } : { rawString: encodeBase64(value.raw) };
    case "bytes":
      return { bytes: encodeBase64(value.value) };
    case "array":
      return {
        array: value.slice().map(toJson),
        ...(value.elementType === undefined ? {} : { of: value.elementType }),
      };
    case "map":
      return { map: value.entries.map(({ key, value: item }) => [key, toJson(item)]) };
    default:
      return { [value.type]: Object.is(value.value, -0) ? "-0" : String(value.value) };
  }
}

function fromJson(json: Json): MetadataValue | undefined {
  if (typeof json !== "object" || json === null || Array.isArray(json)) return undefined;
  const object = json as { readonly [key: string]: Json };
  const [type] = Object.keys(object).filter((key) => key !== "of");
  if (type === undefined) return undefined;
  const data = object[type] ?? null;
  if (type === "null") return { type: "null" };
  if (type === "bool") return typeof data === "boolean" ? { type: "bool", value: data } : undefined;
  if (type === "array") return arrayFromJson(data, object["of"]);
  if (type === "map") return mapFromJson(data);
  if (typeof data !== "string") return undefined;
  if (type === "string") return { type: "string", value: data };
  if (type === "f32" || type === "f64") return { type, value: Number(data) };
  const bytes = type === "bytes" || type === "rawString" ? decodeBase64(data) : undefined;
  if (bytes !== undefined) {
    return type === "bytes"
      ? { type: "bytes", value: bytes }
      : { type: "string", value: new TextDecoder().decode(bytes), raw: bytes };
  }
  return parseInteger(data, type);
}

function arrayFromJson(data: Json, of: Json | undefined): MetadataValue | undefined {
  if (!Array.isArray(data)) return undefined;
  const items = data.map((item: Json) => fromJson(item));
  const fine = items.every((item): item is MetadataValue => item !== undefined);
  return fine ? arrayValue(items, typeof of === "string" ? (of as ValueType) : undefined) : undefined;
}

function mapFromJson(data: Json): MetadataValue | undefined {
  if (!Array.isArray(data)) return undefined;
  const entries: MetadataEntry[] = [];
  for (const pair of data as readonly Json[]) {
    if (!Array.isArray(pair) || typeof pair[0] !== "string") return undefined;
    const value = fromJson(pair[1] ?? null);
    if (value === undefined) return undefined;
    entries.push({ key: pair[0], value });
  }
  return { type: "map", entries };
}
