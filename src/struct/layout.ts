import type { Bytes } from "../base/bytes.ts";
import { FormatError, LimitError, type Location, UsageError } from "../base/errors.ts";
import type { ByteOrder, Field, LayoutRow, RecordView } from "./fields.ts";

export type { ByteOrder } from "./fields.ts";
export { ascii, bigU64, bytes, Field, f32, f64, i32, reserved, u8, u16, u32, u64 } from "./fields.ts";

// biome-ignore lint/suspicious/noExplicitAny: a table of fields of different types has no narrower common type
type AnyField = Field<any, "required" | "optional">;
type Fields = Readonly<Record<string, AnyField>>;
type ValueOf<F> = F extends Field<infer T, infer _> ? T : never;
type OptionalNames<F extends Fields> = {
  [K in keyof F]: F[K] extends Field<infer _, "optional"> ? K : never;
}[keyof F];

/** The values of a record: one property per field. */
export type Decoded<L> = L extends Layout<infer F> ? { readonly [K in keyof F]: ValueOf<F[K]> } : never;

/** What `encode` takes: fields with a pinned or default value may be left out. */
export type Encodable<F extends Fields> = {
  readonly [K in Exclude<keyof F, OptionalNames<F>>]: ValueOf<F[K]>;
} & { readonly [K in OptionalNames<F>]?: ValueOf<F[K]> };

interface DecodeOptions {
  /** "little" if absent. */
  readonly byteOrder?: ByteOrder;
  /** Where the record begins in `bytes`; 0 if absent. */
  readonly start?: number;
  /** The error code of a short record or a wrong value. */
  readonly code?: `format/${string}`;
}

/** A record of fixed length, read and written by its table. */
export interface Layout<F extends Fields = Fields> {
  readonly name: string;
  readonly byteLength: number;
  readonly fields: F;
  /** In order of offset, names as the specification spells them. */
  readonly rows: readonly LayoutRow[];
  /**
   * `at.offset` is the absolute offset of the record, `at.path` its name; both only serve messages. Byte fields
   * are views. Throws FormatError for too few bytes or a pinned field with another value, LimitError for a
   * 64-bit length above 2^53 - 1.
   */
  decode(bytes: Bytes, at: Location, options?: DecodeOptions): { readonly [K in keyof F]: ValueOf<F[K]> };
  /** Throws UsageError for a value that its field cannot hold. */
  encode(values: Encodable<F>, options?: { readonly byteOrder?: ByteOrder }): Bytes;
}

/**
 * Defines a record. The fields must cover 0 … byteLength without gap or overlap. This is checked here, once: a wrong
 * table throws when the module is loaded, not when a file is read.
 */
export function struct<const F extends Fields>(name: string, byteLength: number, fields: F): Layout<F> {
  const compiled = compile(name, byteLength, fields);
  const rows = compiled.map(({ wireName, field }) => ({
    name: wireName,
    offset: field.offset,
    byteLength: field.codec.byteLength,
    type: field.codec.type,
  }));
  return {
    name,
    byteLength,
    fields,
    rows,
    decode: (bytes, at, options = {}) => {
      const { byteOrder = "little", start = 0, code = "format/struct" } = options;
      if (start + byteLength > bytes.byteLength) throw tooShort(name, byteLength, bytes.byteLength - start, code, at);
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      return decodeFields(name, compiled, { view, start, littleEndian: byteOrder === "little" }, code, at) as never;
    },
    encode: (values, { byteOrder = "little" } = {}) => {
      const bytes = new Uint8Array(byteLength);
      const view = new DataView(bytes.buffer);
      encodeFields(name, compiled, { view, start: 0, littleEndian: byteOrder === "little" }, values);
      return bytes;
    },
  };
}

interface CompiledField {
  readonly key: string;
  readonly wireName: string;
  readonly field: AnyField;
}

function compile(name: string, byteLength: number, fields: Fields): readonly CompiledField[] {
  const compiled = Object.entries(fields)
    .map(([key, field]) => ({ key, field, wireName: key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) }))
    .sort((a, b) => a.field.offset - b.field.offset);
  let end = 0;
  for (const { key, field } of compiled) {
    if (field.offset !== end) throw wrongTable(name, `"${key}" must begin at ${end}, found ${field.offset}`);
    if (field.expected !== undefined && !field.codec.fits(field.expected)) {
      throw wrongTable(name, `"${key}" cannot hold its own value`);
    }
    end += field.codec.byteLength;
  }
  if (end !== byteLength) throw wrongTable(name, `the fields must end at ${byteLength}, found ${end}`);
  return compiled;
}

function decodeFields(
  name: string,
  compiled: readonly CompiledField[],
  record: RecordView,
  code: `format/${string}`,
  at: Location,
): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const item of compiled) {
    const { codec, offset, expected } = item.field;
    const value: unknown = codec.read(record, offset);
    if (value === undefined) throw beyondExact(name, item, at);
    if (expected !== undefined && !codec.equals(value, expected)) throw wrongValue(name, item, value, code, at);
    values[item.key] = value;
  }
  return values;
}

function encodeFields(
  name: string,
  compiled: readonly CompiledField[],
  record: RecordView,
  values: Readonly<Record<string, unknown>>,
): void {
  for (const { key, wireName, field } of compiled) {
    const value: unknown = Object.hasOwn(values, key) ? values[key] : undefined;
    const chosen: unknown = value === undefined ? field.fallback : value;
    if (chosen === undefined || !field.codec.fits(chosen)) {
      const message = `Cannot write ${name}: ${wireName} must be a ${field.codec.type}`;
      throw new UsageError("usage/struct", message, { source: name, path: wireName });
    }
    field.codec.write(record, field.offset, chosen);
  }
}

/** Where the field is. Built only for errors about the field. */
function locate({ wireName, field }: CompiledField, at: Location): Location {
  return {
    ...at,
    offset: (at.offset ?? 0) + field.offset,
    path: at.path === undefined ? wireName : `${at.path}.${wireName}`,
  };
}

function tooShort(name: string, wanted: number, found: number, code: `format/${string}`, at: Location): FormatError {
  const message = `Cannot read ${name}: must have ${wanted} bytes, found ${Math.max(0, found)}`;
  return new FormatError(
    code,
    message,
    { ...at, offset: at.offset ?? 0 },
    { hint: "The file is cut short; get it again" },
  );
}

function wrongValue(
  name: string,
  item: CompiledField,
  value: unknown,
  code: `format/${string}`,
  at: Location,
): FormatError {
  const { codec, expected } = item.field;
  const message = `Cannot read ${name}: ${item.wireName} must be ${codec.show(expected)}, found ${codec.show(value)}`;
  return new FormatError(code, message, locate(item, at));
}

function beyondExact(name: string, item: CompiledField, at: Location): LimitError {
  const message = `Cannot read ${name}: ${item.wireName} must be at most 2^53 - 1`;
  return new LimitError("limit/integer", message, locate(item, at), {
    hint: "The field is damaged, or the file was crafted to break readers",
  });
}

/** A mistake in our own source, found when the module is loaded. */
function wrongTable(name: string, detail: string): UsageError {
  return new UsageError("usage/struct", `Cannot define "${name}": ${detail}`, { source: name });
}

/** Named bits of a flag field. */
export interface Flags<Name extends string> {
  readonly name: string;
  /** Bit number, counted from the least significant one, by name. */
  readonly bits: Readonly<Record<Name, number>>;
  has(value: number | bigint, name: Name): boolean;
  /** The names set in `value`, in the order of the definition. */
  decode(value: number | bigint): readonly Name[];
  /** The bits of `value` that have no name; 0n if all are known. */
  unknown(value: number | bigint): bigint;
  encode(names: Iterable<Name>): bigint;
}

/** Defines flags by bit number. Bits above 31 are safe, because no 32-bit operators are used. */
export function flags<const T extends Readonly<Record<string, number>>>(
  name: string,
  bits: T,
): Flags<keyof T & string> {
  type Name = keyof T & string;
  const masks = new Map<Name, bigint>();
  let known = 0n;
  for (const [bitName, bit] of Object.entries(bits)) {
    const mask = 1n << BigInt(bit);
    if ((known & mask) !== 0n) {
      throw new UsageError("usage/struct", `Cannot define "${name}": bit ${bit} has two names`, { source: name });
    }
    known |= mask;
    masks.set(bitName as Name, mask);
  }
  const maskOf = (bitName: Name): bigint => masks.get(bitName) ?? 0n;
  return {
    name,
    bits,
    has: (value, bitName) => (BigInt(value) & maskOf(bitName)) !== 0n,
    decode: (value) => [...masks].filter(([, mask]) => (BigInt(value) & mask) !== 0n).map(([bitName]) => bitName),
    unknown: (value) => BigInt(value) & ~known,
    encode: (names) => {
      let value = 0n;
      for (const bitName of names) value |= maskOf(bitName);
      return value;
    },
  };
}
