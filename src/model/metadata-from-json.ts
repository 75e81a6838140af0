import type { Bytes } from "../base/bytes.ts";
import { FormatError, LimitError } from "../base/errors.ts";
import { JsonScanner } from "../struct/json-scanner.ts";
import { decodeJsonText } from "../struct/strict-json.ts";
import { parseJsonNumber } from "./json-number.ts";
import { arrayValue, type MetadataEntry, type MetadataValue } from "./metadata.ts";

/** Where the JSON stands, how much of it may be built, and how errors name it. */
export interface MetadataJsonPlace {
  readonly source: string;
  readonly offset: number;
  /** JSON values in all. */
  readonly maxValues: number;
  /** For messages: "APR metadata". */
  readonly what: string;
  /** Thrown where the text is no object; JSON_ERRORS has the usual one. */
  readonly noObject?: { readonly code: `format/${string}`; readonly path: string };
}

/** The metadata that a JSON object holds. */
export interface MetadataJson {
  readonly entries: readonly MetadataEntry[];
  /** The JSON text, without what stands behind it. */
  readonly text: string;
  /** Keys that come twice, as paths; the last value counts, as in the programs that write such files. */
  readonly duplicates: readonly string[];
  /** White space or NUL bytes behind the object. */
  readonly trailingBytes: number;
}

/** Refuses what is not one JSON object; duplicate keys and padding are told, not refused. */
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
  return { entries, text, duplicates: reader.duplicates, trailingBytes: bytes.byteLength - end };
}

/** Padding behind the object: spaces, line ends, NUL. */
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
