import type { Bytes } from "../base/bytes.ts";

export type IntegerType = "u8" | "i8" | "u16" | "i16" | "u32" | "i32" | "u64" | "i64";
export type FloatType = "f32" | "f64";
/** The union of the types that the formats have. */
export type ValueType = IntegerType | FloatType | "bool" | "string" | "bytes" | "null" | "array" | "map";

export interface StringValue {
  readonly type: "string";
  readonly value: string;
  /** The stored bytes, if they are not valid UTF-8 and `value` is only a rendering. */
  readonly raw?: Bytes;
}
export interface IntegerValue {
  readonly type: IntegerType;
  /** A bigint exactly if the value is beyond 2^53-1. */
  readonly value: number | bigint;
}
export interface FloatValue {
  readonly type: FloatType;
  readonly value: number;
}
export interface BoolValue {
  readonly type: "bool";
  readonly value: boolean;
  /** The stored byte, if it is neither 0 nor 1 and `value` is only how programs interpret it. */
  readonly raw?: number;
}
export interface NullValue {
  readonly type: "null";
}
export interface BytesValue {
  readonly type: "bytes";
  readonly value: Bytes;
}
/** Decoded only on demand: until then a 128 000-token vocabulary costs only its bytes. */
export interface ArrayValue {
  readonly type: "array";
  /** Absent if the elements differ in type (JSON, MessagePack). */
  readonly elementType?: ValueType;
  readonly length: number;
  /** Elements `start` … `end` (all if absent). Every call decodes them again. */
  slice(start?: number, end?: number): MetadataValue[];
}
export interface MapValue {
  readonly type: "map";
  readonly entries: readonly MetadataEntry[];
}

export type MetadataValue = (
  | StringValue
  | IntegerValue
  | FloatValue
  | BoolValue
  | NullValue
  | BytesValue
  | ArrayValue
  | MapValue
) & {
  /** The value as stored, for writers of the same encoding to copy without decoding. */
  readonly encoded?: EncodedValue;
};

export interface EncodedValue {
  /** Names the encoding of the bytes: "gguf" is type id and value, little-endian. */
  readonly encoding: string;
  readonly bytes: Bytes;
}

export interface MetadataEntry {
  readonly key: string;
  readonly value: MetadataValue;
}

/** Ordered (key, typed value) pairs. Keys are unique: readers refuse duplicates. */
export class Metadata implements Iterable<MetadataEntry> {
  readonly entries: readonly MetadataEntry[];
  readonly #byKey: ReadonlyMap<string, MetadataValue>;

  constructor(entries: readonly MetadataEntry[] = []) {
    this.entries = entries;
    this.#byKey = new Map(entries.map((entry) => [entry.key, entry.value]));
  }

  get size(): number {
    return this.entries.length;
  }

  get(key: string): MetadataValue | undefined {
    return this.#byKey.get(key);
  }

  /** The text of a string value; undefined for anything else. */
  text(key: string): string | undefined {
    const value = this.get(key);
    return value?.type === "string" ? value.value : undefined;
  }

  /** A number that fits; undefined for anything else. */
  number(key: string): number | undefined {
    const value = this.get(key);
    return value !== undefined && "value" in value && typeof value.value === "number" ? value.value : undefined;
  }

  /** The same metadata without one key. */
  without(key: string): Metadata {
    return this.#byKey.has(key) ? new Metadata(this.entries.filter((entry) => entry.key !== key)) : this;
  }

  /** The same metadata with the key set: in place if it exists, else at the end. */
  with(key: string, value: MetadataValue): Metadata {
    const entry = { key, value };
    if (!this.#byKey.has(key)) return new Metadata([...this.entries, entry]);
    return new Metadata(this.entries.map((old) => (old.key === key ? entry : old)));
  }

  /** As `inspect` has it, with every array whole. */
  toJSON(): Record<string, unknown> {
    return Object.fromEntries(this.entries.map(({ key, value }) => [key, plainValue(value)]));
  }

  [Symbol.iterator](): Iterator<MetadataEntry> {
    return this.entries[Symbol.iterator]();
  }
}

/**
 * A value as plain JSON. Integers beyond 2^53-1 and bytes become strings; NaN and infinities too. `summarise` may give
 * something shorter for an array.
 */
export function plainValue(value: MetadataValue, summarise?: (array: ArrayValue) => unknown): unknown {
  const plain = (item: MetadataValue): unknown => plainValue(item, summarise);
  switch (value.type) {
    case "null":
      return null;
    case "array":
      return summarise?.(value) ?? value.slice().map(plain);
    case "map":
      return Object.fromEntries(value.entries.map(({ key, value: item }) => [key, plain(item)]));
    case "bytes":
      return { type: "bytes", byteLength: value.value.byteLength };
    default: {
      const { value: held } = value;
      if (typeof held === "bigint") return held.toString();
      return typeof held === "number" && !Number.isFinite(held) ? String(held) : held;
    }
  }
}

export function stringValue(value: string): MetadataValue {
  return { type: "string", value };
}

export function arrayValue(items: readonly MetadataValue[], elementType?: ValueType): MetadataValue {
  return {
    type: "array",
    length: items.length,
    ...(elementType === undefined ? {} : { elementType }),
    slice: (start = 0, end = items.length) => items.slice(start, end),
  };
}
