import type { Bytes } from "../base/bytes.ts";
import { FormatError, LimitError } from "../base/errors.ts";
import { decodeUtf8, findInvalidUtf8 } from "../base/text.ts";
import { type JsonPlace, JsonScanner } from "./json-scanner.ts";

/** Characters `start` … `end` of the text that was parsed, for errors and for keeping a value as it was written. */
interface JsonSpan {
  readonly start: number;
  readonly end: number;
}

/** A parsed value. Numbers keep their text, objects the order of their keys: nothing is lost, nothing is guessed. */
export type JsonNode = JsonSpan &
  (
    | { readonly type: "null" }
    | { readonly type: "bool"; readonly value: boolean }
    | { readonly type: "number"; readonly text: string }
    | { readonly type: "string"; readonly value: string }
    | { readonly type: "array"; readonly items: readonly JsonNode[] }
    | { readonly type: "object"; readonly entries: readonly (readonly [key: string, value: JsonNode])[] }
  );

/** Where the text stands and what bounds it. */
export interface StrictJsonOptions extends JsonPlace {
  /** Values the tree may have: memory is bounded by this, not by the length of the text. */
  readonly maxValues?: number;
}

const DEFAULT_MAX_VALUES = 1_000_000;

/** Parses one JSON document. Refuses duplicate keys and everything else that `JsonScanner` refuses. */
export function parseStrictJson(text: string, options: StrictJsonOptions): JsonNode {
  const scanner = new JsonScanner(text, options);
  scanner.skipSpace();
  const node = readNode(scanner, options.maxValues);
  scanner.expectEnd();
  return node;
}

/** The text of JSON bytes; refuses what is not UTF-8. A byte order mark stays and is then no JSON. */
export function decodeJsonText(bytes: Bytes, place: JsonPlace): string {
  const text = decodeUtf8(bytes);
  if (text !== undefined) return text;
  throw new FormatError("format/json.utf8", `Cannot read ${place.what}: must be UTF-8`, {
    source: place.source,
    offset: place.offset + findInvalidUtf8(bytes),
  });
}

/** Reads the value at the scanner's position as a tree; for one branch of a document that is otherwise scanned. */
export function readNode(scanner: JsonScanner, maxValues = DEFAULT_MAX_VALUES): JsonNode {
  return new NodeReader(scanner, maxValues).read();
}

class NodeReader {
  readonly #scanner: JsonScanner;
  readonly #maxValues: number;
  #values = 0;

  constructor(scanner: JsonScanner, maxValues: number) {
    this.#scanner = scanner;
    this.#maxValues = maxValues;
  }

  read(): JsonNode {
    const scanner = this.#scanner;
    const start = scanner.position;
    if (++this.#values > this.#maxValues) {
      const message = `Cannot read ${scanner.place.what}: JSON values must be <= ${this.#maxValues}`;
      throw new LimitError("limit/json.values", message, scanner.locate(start));
    }
    const code = scanner.peek();
    if (code === 0x7b) return this.#readObject(start);
    if (code === 0x5b) return this.#readArray(start);
    if (code === 0x22) return { type: "string", value: scanner.readString(), start, end: scanner.position };
    if (scanner.readLiteral("null")) return { type: "null", start, end: scanner.position };
    if (scanner.readLiteral("true")) return { type: "bool", value: true, start, end: scanner.position };
    if (scanner.readLiteral("false")) return { type: "bool", value: false, start, end: scanner.position };
    return { type: "number", text: scanner.readNumber(), start, end: scanner.position };
  }

  #readObject(start: number): JsonNode {
    const entries: (readonly [string, JsonNode])[] = [];
    const keys = new Set<string>();
    this.#scanner.readObject((key, keyIndex) => {
      if (keys.has(key)) {
        const message = `Cannot read ${this.#scanner.place.what}: keys must be unique, found ${JSON.stringify(key)} twice`;
        throw new FormatError(
          "format/json.duplicate-key",
          message,
          this.#scanner.locate(keyIndex, JSON.stringify(key)),
        );
      }
      keys.add(key);
      entries.push([key, this.read()]);
    });
    return { type: "object", entries, start, end: this.#scanner.position };
  }

  #readArray(start: number): JsonNode {
    const items: JsonNode[] = [];
    this.#scanner.readArray(() => items.push(this.read()));
    return { type: "array", items, start, end: this.#scanner.position };
  }
}
