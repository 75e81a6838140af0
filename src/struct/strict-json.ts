import type { Bytes } from "../base/bytes.ts";
import { FormatError, LimitError } from "../base/errors.ts";
import { decodeUtf8, findInvalidUtf8 } from "../base/text.ts";
import { atOnce, FEW_STEPS, type Steps } from "../base/turns.ts";
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

/** Where the text is and what bounds it. */
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

/** The text of JSON bytes; refuses bytes that are not UTF-8. A byte order mark stays, and the parser refuses it. */
export function decodeJsonText(bytes: Bytes, place: JsonPlace): string {
  const text = decodeUtf8(bytes);
  if (text !== undefined) return text;
  throw new FormatError("format/json.utf8", `Cannot read ${place.what}: must be UTF-8`, {
    source: place.source,
    offset: place.offset + findInvalidUtf8(bytes),
  });
}

/** Reads the value at the scanner's position as a tree, for one branch of a document that is otherwise only scanned. */
export function readNode(scanner: JsonScanner, maxValues = DEFAULT_MAX_VALUES): JsonNode {
  return atOnce(readNodeSteps(scanner, maxValues));
}

/** The same, for what may be long. */
export function* readNodeSteps(scanner: JsonScanner, maxValues = DEFAULT_MAX_VALUES): Steps<JsonNode> {
  const reader = new NodeReader(scanner, maxValues);
  for (;;) {
    const node = reader.advance(FEW_STEPS);
    if (node !== undefined) return node;
    yield FEW_STEPS;
  }
}

/** An array or object whose items are not all read yet. */
type OpenNode =
  | { readonly type: "array"; readonly start: number; readonly items: JsonNode[] }
  | {
      readonly type: "object";
      readonly start: number;
      readonly entries: (readonly [string, JsonNode])[];
      readonly keys: Set<string>;
      key: string;
    };

/** Keeps by itself what it is inside of, so that it can pause anywhere. */
class NodeReader {
  readonly #scanner: JsonScanner;
  readonly #maxValues: number;
  readonly #open: OpenNode[] = [];
  #values = 0;

  constructor(scanner: JsonScanner, maxValues: number) {
    this.#scanner = scanner;
    this.#maxValues = maxValues;
  }

  /** Reads on for that many values; returns the tree once it is complete. */
  advance(values: number): JsonNode | undefined {
    for (let i = 0; i < values; i++) {
      const node = this.#begin();
      const root = node && this.#close(node);
      if (root !== undefined) return root;
    }
    return undefined;
  }

  /** Reads a value, of an array or object only its beginning: then undefined, unless it is empty. */
  #begin(): JsonNode | undefined {
    const scanner = this.#scanner;
    const start = scanner.position;
    if (++this.#values > this.#maxValues) {
      const message = `Cannot read ${scanner.place.what}: JSON values must be <= ${this.#maxValues}`;
      throw new LimitError("limit/json.values", message, scanner.locate(start));
    }
    const code = scanner.peek();
    if (code === 0x7b) {
      const key = scanner.firstKey();
      if (key === undefined) return { type: "object", entries: [], start, end: scanner.position };
      this.#open.push({ type: "object", start, entries: [], keys: new Set([key]), key });
      return undefined;
    }
    if (code === 0x5b) {
      if (!scanner.firstItem()) return { type: "array", items: [], start, end: scanner.position };
      this.#open.push({ type: "array", start, items: [] });
      return undefined;
    }
    if (code === 0x22) return { type: "string", value: scanner.readString(), start, end: scanner.position };
    if (scanner.readLiteral("null")) return { type: "null", start, end: scanner.position };
    if (scanner.readLiteral("true")) return { type: "bool", value: true, start, end: scanner.position };
    if (scanner.readLiteral("false")) return { type: "bool", value: false, start, end: scanner.position };
    return { type: "number", text: scanner.readNumber(), start, end: scanner.position };
  }

  /** Puts a value where it belongs, and what ends with it; the root, where that ends. */
  #close(node: JsonNode): JsonNode | undefined {
    let closed = node;
    for (let inside = this.#open.at(-1); inside !== undefined; inside = this.#open.at(-1)) {
      if (this.#goesOn(inside, closed)) return undefined;
      this.#open.pop();
      const { start } = inside;
      const end = this.#scanner.position;
      closed =
        inside.type === "array"
          ? { type: "array", items: inside.items, start, end }
          : { type: "object", entries: inside.entries, start, end };
    }
    return closed;
  }

  /** Adds a value; true where another one follows. */
  #goesOn(inside: OpenNode, node: JsonNode): boolean {
    const scanner = this.#scanner;
    if (inside.type === "array") {
      inside.items.push(node);
      return scanner.nextItem();
    }
    inside.entries.push([inside.key, node]);
    const key = scanner.nextKey();
    if (key === undefined) return false;
    if (inside.keys.has(key)) {
      const message = `Cannot read ${scanner.place.what}: keys must be unique, found ${JSON.stringify(key)} twice`;
      const at = scanner.locate(scanner.keyIndex, JSON.stringify(key));
      throw new FormatError("format/json.duplicate-key", message, at);
    }
    inside.keys.add(key);
    inside.key = key;
    return true;
  }
}

/** The value of a key; undefined if the node is not an object or has no such key. */
export function member(node: JsonNode | undefined, key: string): JsonNode | undefined {
  if (node?.type !== "object") return undefined;
  return node.entries.find(([name]) => name === key)?.[1];
}

export function textIn(node: JsonNode | undefined, key: string): string | undefined {
  const value = member(node, key);
  return value?.type === "string" ? value.value : undefined;
}

export function numberIn(node: JsonNode | undefined, key: string): number | undefined {
  const value = member(node, key);
  return value?.type === "number" ? Number(value.text) : undefined;
}

/** As text, so that callers cannot mistake "false" for "not stated". */
export function isTrueOrFalse(node: JsonNode | undefined, key: string): "true" | "false" | undefined {
  const value = member(node, key);
  return value?.type === "bool" ? (value.value ? "true" : "false") : undefined;
}

/** A whole number above zero; undefined for anything else. */
export function positiveIn(node: JsonNode | undefined, key: string): number | undefined {
  const value = numberIn(node, key);
  return value !== undefined && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}
