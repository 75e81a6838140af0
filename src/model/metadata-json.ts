import type { Bytes } from "../base/bytes.ts";
import { FormatError, LimitError } from "../base/errors.ts";
import { decodeUtf8, encodeHex, encodeUtf8 } from "../base/text.ts";
import { JsonScanner } from "../struct/json-scanner.ts";
import { decodeJsonText } from "../struct/strict-json.ts";
import { arrayValue, type EncodedValue, type MetadataEntry, type MetadataValue } from "./metadata.ts";

/** Location of the JSON, the bound on its values, and its name in errors. */
interface MetadataJsonPlace {
  readonly source: string;
  readonly offset: number;
  /** Bound on all JSON values together. */
  readonly maxValues: number;
  /** For messages: "APR metadata". */
  readonly what: string;
  /** Thrown if the text is not an object; the default is in JSON_ERRORS. */
  readonly noObject?: { readonly code: `format/${string}`; readonly path: string };
}

/** Most values of one JSON text that a user gives; no configuration has more. */
export const MAX_GIVEN_VALUES = 4_000_000;

/** The metadata that a JSON object holds. */
export interface MetadataJson {
  readonly entries: readonly MetadataEntry[];
  /** The JSON text, without anything after it. */
  readonly text: string;
  /** Keys that occur twice, as paths. The last value counts, as in the programs that write such files. */
  readonly duplicates: readonly string[];
  /** Those duplicates whose earlier value differs and is never read. */
  readonly shadowed: readonly string[];
  /** White space or NUL bytes after the object. */
  readonly padding: string;
}

/** Refuses anything but one JSON object. Duplicate keys and padding are reported, not refused. */
export function decodeMetadataJson(bytes: Bytes, place: MetadataJsonPlace): MetadataJson {
  const end = contentEnd(bytes);
  const text = decodeJsonText(bytes.subarray(0, end), place);
  const scanner = new JsonScanner(text, place);
  scanner.skipSpace();
  if (scanner.peek() !== 0x7b) {
    const { source, offset, what, noObject } = place;
    const message = `Cannot read ${what}: must be a JSON object, found ${text === "" ? "nothing" : text.slice(0, 1)}`;
    const at = { source, offset, ...(noObject === undefined ? {} : { path: noObject.path }) };
    throw new FormatError(noObject?.code ?? "format/json.object", message, at);
  }
  const reader = new ValueReader(scanner, place.maxValues);
  const entries = reader.readEntries();
  scanner.expectEnd();
  const { duplicates, shadowed } = reader;
  return { entries, text, duplicates, shadowed, padding: decodeUtf8(bytes.subarray(end)) ?? "" };
}

/** The same for values that a user gives: if a key had two of them, one would be lost, and nothing says which is meant. */
export function decodeGivenJson(bytes: Bytes, place: MetadataJsonPlace): readonly MetadataEntry[] {
  const { entries, shadowed } = decodeMetadataJson(bytes, place);
  const [key] = shadowed;
  if (key === undefined) return entries;
  const path = JSON.stringify(key);
  const message = `Cannot read ${place.what}: keys must be unique, found ${path} with two values`;
  throw new FormatError("format/json.duplicate-key", message, { source: place.source, path });
}

/** Padding after the object: spaces, line ends, NUL. */
function contentEnd(bytes: Bytes): number {
  let end = bytes.byteLength;
  while (end > 0 && isPadding(bytes[end - 1] as number)) end--;
  return end;
}

function isPadding(byte: number): boolean {
  return byte === 0 || byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Builds typed values straight from the text. */
class ValueReader {
  readonly duplicates: string[] = [];
  readonly shadowed: string[] = [];
  readonly #scanner: JsonScanner;
  readonly #maxValues: number;
  #values = 0;

  constructor(scanner: JsonScanner, maxValues: number) {
    this.#scanner = scanner;
    this.#maxValues = maxValues;
  }

  readEntries(): MetadataEntry[] {
    const entries: MetadataEntry[] = [];
    const places = new Map<string, number>();
    this.#scanner.readObject((key) => {
      const value = this.#readValue();
      const before = places.get(key);
      if (before === undefined) places.set(key, entries.push({ key, value }) - 1);
      else {
        this.duplicates.push(key);
        const first = (entries[before] as MetadataEntry).value;
        if (fingerprint(first) !== fingerprint(value)) this.shadowed.push(key);
        entries[before] = { key, value };
      }
    });
    return entries;
  }

  #readValue(): MetadataValue {
    const scanner = this.#scanner;
    if (++this.#values > this.#maxValues) {
      const message = `Cannot read ${scanner.place.what}: JSON values must be <= ${this.#maxValues}`;
      throw new LimitError("limit/json.values", message, scanner.locate(scanner.position));
    }
    const code = scanner.peek();
    if (code === 0x7b) return { type: "map", entries: this.readEntries() };
    if (code === 0x5b) return this.#readArray();
    if (code === 0x22) return { type: "string", value: scanner.readString() };
    if (scanner.readLiteral("null")) return { type: "null" };
    if (scanner.readLiteral("true")) return { type: "bool", value: true };
    if (scanner.readLiteral("false")) return { type: "bool", value: false };
    return parseJsonNumber(scanner.readNumber());
  }

  #readArray(): MetadataValue {
    const items: MetadataValue[] = [];
    this.#scanner.readArray(() => items.push(this.#readValue()));
    const [first] = items;
    const isUniform = first !== undefined && items.every((item) => item.type === first.type);
    return arrayValue(items, isUniform ? first.type : undefined);
  }
}

/** How a format writes text in its JSON: as it is, or with everything beyond ASCII escaped. */
type TextRenderer = (text: string) => string;

/**
 * Entries as a compact JSON object, in the given order. Strings that are not UTF-8 and byte strings have no JSON form,
 * so callers must exclude them. A number that no float holds keeps its digits.
 */
export function renderMembers(entries: readonly MetadataEntry[], renderText: TextRenderer): string {
  const members = entries.map(({ key, value }) => `${renderText(key)}:${renderValue(value, renderText)}`);
  return `{${members.join(",")}}`;
}

/** The same, with text as it is. */
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

/** Equal exactly for equal values, including type, width and order. */
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

/** Marks `encoded.bytes` as the digits of a JSON number that no type here holds exactly. */
export const JSON_NUMBER = "json-number";

/** The number of RFC 8259, section 6, in its parts. */
const NUMBER = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/;

/**
 * Digits alone are an integer if 64 bits hold it. Everything else is a float, also "-0" and "1.0". A number with more
 * digits than a float keeps its text, so that writing it again does not round it.
 */
export function parseJsonNumber(text: string): MetadataValue {
  const integer = parseInteger(text);
  if (integer !== undefined) return integer;
  const value = Number(text);
  if (isSameNumber(text, String(value))) return { type: "f64", value };
  return { type: "f64", value, encoded: { encoding: JSON_NUMBER, bytes: encodeUtf8(text) } };
}

/** A number that `tare.origin` carried; undefined for another encoding or text that is not a number. */
export function decodeJsonNumber({ encoding, bytes }: EncodedValue): MetadataValue | undefined {
  const text = encoding === JSON_NUMBER ? decodeUtf8(bytes) : undefined;
  return text !== undefined && NUMBER.test(text) ? parseJsonNumber(text) : undefined;
}

function parseInteger(text: string): MetadataValue | undefined {
  // 2^64 has 20 digits, -2^63 has 19 and a sign.
  if (!/^-?[0-9]{1,20}$/.test(text) || text === "-0") return undefined;
  const value = Number(text);
  if (Number.isSafeInteger(value)) return { type: "i64", value };
  const exact = BigInt(text);
  if (exact >= -(2n ** 63n) && exact < 2n ** 63n) return { type: "i64", value: exact };
  return exact > 0 && exact < 2n ** 64n ? { type: "u64", value: exact } : undefined;
}

/** True if two spellings mean the same decimal number: 1e2, 100 and 100.0 do. */
function isSameNumber(a: string, b: string): boolean {
  return a === b || (decimalOf(a) ?? "none") === decimalOf(b);
}

/** Sign, digits without zeros at either end, and the power of ten of the last one. */
function decimalOf(text: string): string | undefined {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = NUMBER.exec(text) ?? [];
  if (whole === "") return undefined;
  const digits = (whole + fraction).replace(/^0+/, "");
  if (digits === "") return "0"; // 0, -0 and 0.0e9: only the sign differs, and a float has one
  // Not /0+$/: on a long run of zeros that ends in another digit it takes time in the square of the length.
  let end = digits.length;
  while (digits.charCodeAt(end - 1) === 0x30) end--;
  return `${sign}${digits.slice(0, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}
