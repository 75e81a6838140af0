import type { Bytes } from "../../base/bytes.ts";
import { FormatError, LimitError } from "../../base/errors.ts";
import type { MsgpackPlace } from "./msgpack-head.ts";
import { MsgpackReader } from "./msgpack-reader.ts";
import { MsgpackWriter } from "./msgpack-writer.ts";

/** Any MessagePack value whose maps have text as keys. Integers and floats stay apart, maps keep their order. */
export type MsgpackValue =
  | { readonly type: "nil" }
  | { readonly type: "bool"; readonly value: boolean }
  /** A bigint if, and only if, the value is beyond ±(2^53 - 1). */
  | { readonly type: "integer"; readonly value: number | bigint }
  /** Read from either width; written with 64 bits. */
  | { readonly type: "float"; readonly value: number }
  | { readonly type: "string"; readonly value: string }
  /** A view of the decoded bytes. */
  | { readonly type: "bin"; readonly value: Bytes }
  | { readonly type: "ext"; readonly extType: number; readonly value: Bytes }
  | { readonly type: "array"; readonly items: readonly MsgpackValue[] }
  | { readonly type: "map"; readonly entries: readonly MsgpackEntry[] };

/** One pair of a map. */
export type MsgpackEntry = readonly [key: string, value: MsgpackValue];

/** Where the bytes are and what bounds the tree. */
export interface MsgpackDecodeOptions extends MsgpackPlace {
  /** How deep arrays and maps may nest; 64 if absent. */
  readonly maxDepth?: number;
  /** Values the tree may have: memory is bounded by this, not by the length of the bytes. */
  readonly maxValues?: number;
}

const DEFAULT_MAX_DEPTH = 64;
const DEFAULT_MAX_VALUES = 1_000_000;

/** The single value in the bytes. Refuses bytes after it. */
export function decodeMsgpack(bytes: Bytes, options: MsgpackDecodeOptions): MsgpackValue {
  const reader = new MsgpackReader(bytes, options);
  const value = readMsgpackValue(reader, options);
  reader.checkEnd();
  return value;
}

/** The value at the reader's position as a tree, for one branch of a document that is otherwise only walked. */
export function readMsgpackValue(
  reader: MsgpackReader,
  options: Pick<MsgpackDecodeOptions, "maxDepth" | "maxValues" | "what"> = {},
  path = "",
): MsgpackValue {
  return new ValueReader(reader, options).read(path, 0);
}

/** Canonical bytes of a value. */
export function encodeMsgpack(value: MsgpackValue): Bytes {
  const writer = new MsgpackWriter();
  writeMsgpackValue(writer, value);
  return writer.take();
}

/** Appends a value to what a writer holds. */
function writeMsgpackValue(writer: MsgpackWriter, value: MsgpackValue): void {
  switch (value.type) {
    case "array":
      writer.array(value.items.length);
      for (const item of value.items) writeMsgpackValue(writer, item);
      break;
    case "map":
      writer.map(value.entries.length);
      for (const [key, item] of value.entries) {
        writer.string(key);
        writeMsgpackValue(writer, item);
      }
      break;
    default:
      writeScalar(writer, value);
  }
}

function writeScalar(writer: MsgpackWriter, value: Exclude<MsgpackValue, { type: "array" | "map" }>): void {
  switch (value.type) {
    case "nil":
      writer.nil();
      break;
    case "bool":
      writer.bool(value.value);
      break;
    case "integer":
      writer.int(value.value);
      break;
    case "float":
      writer.float64(value.value);
      break;
    case "string":
      writer.string(value.value);
      break;
    case "bin":
      writer.bin(value.value);
      break;
    case "ext":
      writer.ext(value.extType, value.value);
  }
}

class ValueReader {
  readonly #reader: MsgpackReader;
  readonly #maxDepth: number;
  readonly #what: string;
  readonly #maxValues: number;
  #left: number;

  constructor(reader: MsgpackReader, options: Pick<MsgpackDecodeOptions, "maxDepth" | "maxValues" | "what">) {
    this.#reader = reader;
    this.#maxDepth = options.maxDepth ?? DEFAULT_MAX_DEPTH;
    this.#maxValues = options.maxValues ?? DEFAULT_MAX_VALUES;
    this.#what = options.what ?? "MessagePack";
    this.#left = this.#maxValues;
  }

  read(path: string, depth: number): MsgpackValue {
    const reader = this.#reader;
    const named = path === "" ? undefined : path;
    if (--this.#left < 0) {
      const message = `Cannot read ${this.#what}: must hold at most ${this.#maxValues} values`;
      throw new LimitError("limit/msgpack.values", message, reader.at(named));
    }
    const type = reader.peekType(named);
    switch (type) {
      case "bool":
        return { type, value: reader.readBool(named) };
      case "integer":
        return { type, value: reader.readInteger(named) };
      case "float":
        return { type, value: reader.readFloat(named) };
      case "string":
        return { type, value: reader.readString(named) };
      case "bin":
        return { type, value: reader.readBin(named) };
      case "ext": {
        const { extType, data } = reader.readExt(named);
        return { type, extType, value: data };
      }
      case "array":
        return this.#readArray(path, depth + 1);
      case "map":
        return this.#readMap(path, depth + 1);
      default:
        reader.readNil(named); // refuses the unused byte 0xc1 as well
        return { type: "nil" };
    }
  }

  #readArray(path: string, depth: number): MsgpackValue {
    this.#checkDepth(path, depth);
    const count = this.#reader.readArrayHeader(path);
    const items: MsgpackValue[] = [];
    for (let i = 0; i < count; i++) items.push(this.read(`${path}[${i}]`, depth));
    return { type: "array", items };
  }

  #readMap(path: string, depth: number): MsgpackValue {
    this.#checkDepth(path, depth);
    const count = this.#reader.readMapHeader(path);
    const seen = new Set<string>();
    const entries: MsgpackEntry[] = [];
    for (let i = 0; i < count; i++) {
      const start = this.#reader.offset;
      const key = this.#reader.readKey(path === "" ? undefined : path);
      const place = path === "" ? key : `${path}.${key}`;
      if (seen.has(key)) {
        const message = `Cannot read ${this.#what}: the keys of a map must differ, found ${JSON.stringify(key)} twice`;
        throw new FormatError("format/msgpack.duplicate-key", message, this.#reader.at(place, start));
      }
      seen.add(key);
      entries.push([key, this.read(place, depth)]);
    }
    return { type: "map", entries };
  }

  #checkDepth(path: string, depth: number): void {
    if (depth <= this.#maxDepth) return;
    const message = `Cannot read ${this.#what}: must nest at most ${this.#maxDepth} levels deep`;
    throw new LimitError("limit/msgpack.depth", message, this.#reader.at(path));
  }
}
