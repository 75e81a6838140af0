import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { checkLimit, type Limits } from "../../base/limits.ts";
import { decodeUtf8 } from "../../base/text.ts";
import { Turns } from "../../base/turns.ts";
import type { Source } from "../../bytes/source.ts";
import type { ONNX_LIMITS } from "./limits.ts";
import { Surplus } from "./surplus.ts";

/** Wire types: the kind of payload that follows a tag. */
export const WIRE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

/** One field of a message, before its payload is read. */
export interface Field {
  readonly number: number;
  readonly wire: number;
  /** The value of a varint: unsigned, a bigint exactly if it is beyond 2^53 - 1. Zero for other wire types. */
  readonly value: number | bigint;
  /** Offset of the payload in the file. */
  readonly offset: number;
  readonly byteLength: number;
}

/**
 * True if the field has the form of a repeated number of wire type `wire`: one of them, or a run of them (protobuf,
 * "Packed Repeated Fields"). How many varints a run has is known only when it is read.
 */
export function isPacked({ wire: found, byteLength }: Field, wire: number): boolean {
  if (found === wire) return true;
  return found === WIRE.bytes && byteLength % (fixedBytes(wire) ?? 1) === 0;
}

function fixedBytes(wire: number): number | undefined {
  return wire === WIRE.fixed64 ? 8 : wire === WIRE.fixed32 ? 4 : undefined;
}

/** Longest tag and length or value: 5 and 10 bytes. */
const MAX_HEAD_BYTES = 15;
/** First read after a jump: enough for the head of a tensor. Consecutive reads double it. */
const FIRST_WINDOW = 4 << 10;
const MAX_WINDOW = 256 << 10;

type Visit = (field: Field) => Promise<void> | undefined;

/**
 * Walks over protobuf messages in a Source and reads only what the visitor needs: it skips the payload of a field by
 * its length. It never recurses by itself, so nesting costs nothing. Every length is checked against the enclosing
 * message.
 */
export class ProtoReader {
  readonly limits: Limits<typeof ONNX_LIMITS>;
  readonly signal: AbortSignal | undefined;
  /** Fields that we do not understand. */
  readonly surplus = new Surplus();
  readonly #source: Source;
  readonly #turns: Turns;
  #window: Bytes = EMPTY_BYTES;
  #windowStart = 0;
  #windowBytes = FIRST_WINDOW;
  #position = 0;
  #bytesRead = 0;

  constructor(source: Source, limits: Limits<typeof ONNX_LIMITS>, signal?: AbortSignal | undefined) {
    this.#source = source;
    this.limits = limits;
    this.signal = signal;
    this.#turns = new Turns(signal);
  }

  get byteLength(): number {
    return this.#source.byteLength;
  }

  at(offset: number, path: string): Location {
    return { source: this.#source.label, offset, path };
  }

  /** Visits every field of the message at `offset` … `end`, in order. `path` names the message in errors. */
  async walk(offset: number, end: number, path: string, visit: Visit): Promise<void> {
    let position = offset;
    while (position < end) {
      this.#position = position;
      const wanted = Math.min(MAX_HEAD_BYTES, end - position);
      if (!this.#holds(wanted)) await this.#fill(wanted, path);
      const field = this.#readHead(end, path);
      position = field.offset + field.byteLength;
      const pending = visit(field);
      if (pending !== undefined) await pending;
      // Most fields are in the window, so the file's own reads are rare and give few chances to stop.
      const turn = this.#turns.step();
      if (turn !== undefined) await turn;
    }
  }

  /** The fields of a message that is a field of another. */
  walkIn(field: Field, path: string, visit: Visit): Promise<void> {
    this.checkWire(field, WIRE.bytes, path);
    return this.walk(field.offset, field.offset + field.byteLength, path, visit);
  }

  /** The payload's bytes, within the limit on text. */
  async bytes(field: Field, path: string): Promise<Bytes> {
    this.checkWire(field, WIRE.bytes, path);
    const { offset, byteLength } = field;
    const { textBytes } = this.limits;
    checkLimit(byteLength, textBytes, "a text of this many bytes", "limit/onnx.text-bytes", this.at(offset, path));
    this.#position = offset;
    if (!this.#holds(byteLength)) await this.#fill(byteLength, path);
    const start = offset - this.#windowStart;
    return this.#window.subarray(start, start + byteLength);
  }

  async text(field: Field, path: string): Promise<string> {
    const text = decodeUtf8(await this.bytes(field, path));
    if (text !== undefined) return text;
    throw new FormatError("format/onnx.utf8", `Cannot read ONNX ${path}: must be UTF-8`, this.at(field.offset, path));
  }

  /** The number of a varint field; refuses numbers that no count or id can be. */
  number(field: Field, path: string): number {
    this.checkWire(field, WIRE.varint, path);
    if (typeof field.value === "number") return field.value;
    const message = `Cannot read ONNX ${path}: must be 0 to 2^53 - 1, found ${BigInt.asIntN(64, field.value)}`;
    throw new FormatError("format/onnx.number", message, this.at(field.offset, path));
  }

  /** A field of `message` that its schema does not name. */
  unknown(message: string, { number }: Field): void {
    this.surplus.unknown(`${message} field ${number}`);
  }

  checkWire(field: Field, wire: number, path: string): void {
    if (field.wire === wire) return;
    const message = `Cannot read ONNX ${path}: the wire type must be ${wire}, found ${field.wire}`;
    throw new FormatError("format/onnx.wire-type", message, this.at(field.offset, path));
  }

  /** Refuses a field that is neither one number of wire type `wire` nor a run of whole ones. */
  checkPacked(field: Field, wire: number, path: string): void {
    if (isPacked(field, wire)) return;
    this.checkWire(field, WIRE.bytes, path);
    const size = fixedBytes(wire);
    const message = `Cannot read ONNX ${path}: must hold numbers of ${size} bytes each, found ${field.byteLength} bytes`;
    throw new FormatError("format/onnx.data-length", message, this.at(field.offset, path));
  }

  #holds(byteLength: number): boolean {
    const start = this.#position - this.#windowStart;
    return start >= 0 && start + byteLength <= this.#window.byteLength;
  }

  async #fill(byteLength: number, path: string): Promise<void> {
    const isNext = this.#position >= this.#windowStart && this.#position <= this.#windowStart + this.#window.byteLength;
    this.#windowBytes = isNext ? Math.min(2 * this.#windowBytes, MAX_WINDOW) : FIRST_WINDOW;
    const wanted = Math.min(Math.max(byteLength, this.#windowBytes), this.byteLength - this.#position);
    this.#bytesRead += wanted;
    const { controlBytes } = this.limits;
    const at = this.at(this.#position, path);
    checkLimit(this.#bytesRead, controlBytes, "a graph of this many bytes", "limit/onnx.control-bytes", at);
    this.#window = await this.#source.read(this.#position, wanted, { signal: this.signal });
    this.#windowStart = this.#position;
  }

  #readHead(end: number, path: string): Field {
    const start = this.#position;
    const tag = this.#varint(end, path);
    const wire = Number(tag) & 7;
    const number = Math.floor(Number(tag) / 8);
    // Field numbers have 29 bits; 0 is invalid.
    if (typeof tag !== "number" || number < 1 || number > 0x1fff_ffff) throw this.#badTag(start, path, `${tag}`);
    if (wire === WIRE.varint) {
      const offset = this.#position;
      const value = this.#varint(end, path);
      return { number, wire, value, offset, byteLength: this.#position - offset };
    }
    const byteLength = fixedBytes(wire);
    if (byteLength === undefined && wire !== WIRE.bytes) throw this.#badTag(start, path, `wire type ${wire}`);
    const length = byteLength ?? this.#varint(end, path);
    const offset = this.#position;
    if (typeof length === "number" && length <= end - offset) {
      return { number, wire, value: 0, offset, byteLength: length };
    }
    const message = `Cannot read ONNX ${path}: field ${number} has ${length} bytes at ${offset}, ${end - offset} are left`;
    throw new FormatError("format/onnx.length", message, this.at(start, path), {
      hint: "The file is cut short or damaged; download it again",
    });
  }

  /** Seven bits per byte, lowest first, at most ten bytes (protobuf, "Base 128 Varints"). */
  #varint(end: number, path: string): number | bigint {
    const start = this.#position;
    let low = 0;
    let high = 0;
    for (let i = 0; i < 10; i++) {
      const byte = this.#position < end ? this.#window[this.#position - this.#windowStart] : undefined;
      if (byte === undefined) throw this.#badVarint(start, path);
      this.#position++;
      const bits = byte & 0x7f;
      if (i < 4) low += bits * 2 ** (7 * i);
      else if (i === 4) {
        low += (bits & 0xf) * 2 ** 28;
        high += bits >> 4;
      } else if (i < 9) high += bits * 2 ** (7 * i - 32);
      else if (bits > 1) throw this.#badVarint(start, path);
      else high += bits * 2 ** 31;
      if (byte < 0x80) return high > 0x1f_ffff ? (BigInt(high) << 32n) | BigInt(low) : high * 0x1_0000_0000 + low;
    }
    throw this.#badVarint(start, path);
  }

  #badTag(offset: number, path: string, found: string): FormatError {
    const message = `Cannot read ONNX ${path}: must have a field of protobuf here, found ${found}`;
    return new FormatError("format/onnx.tag", message, this.at(offset, path));
  }

  #badVarint(offset: number, path: string): FormatError {
    const message = `Cannot read ONNX ${path}: a number must end within ten bytes and inside its message`;
    return new FormatError("format/onnx.varint", message, this.at(offset, path), {
      hint: "The file is cut short or damaged; download it again",
    });
  }
}

/** Signed 64-bit values of packed varints; refuses a varint that does not end. */
export function decodeVarints(bytes: Bytes, at: Location): readonly bigint[] {
  const values: bigint[] = [];
  for (let position = 0; position < bytes.byteLength; ) {
    let value = 0n;
    let shift = 0n;
    let byte = 0x80;
    while (byte >= 0x80) {
      const next = bytes[position++];
      if (next === undefined || shift > 63n) throw unended(at);
      byte = next;
      value |= BigInt(byte & 0x7f) << shift;
      shift += 7n;
    }
    values.push(BigInt.asIntN(64, value));
  }
  return values;
}

/** The lowest 32 bits of every packed varint, for types that need no more; cheaper than whole values. */
export function decodeVarints32(bytes: Bytes, count: number, at: Location): Uint32Array<ArrayBuffer> {
  const values = new Uint32Array(count);
  let position = 0;
  let found = 0;
  while (position < bytes.byteLength) {
    const start = position;
    let value = 0;
    let byte = 0x80;
    while (byte >= 0x80) {
      const next = bytes[position];
      if (next === undefined || position - start >= 10) throw unended(at);
      byte = next;
      if (position - start < 5) value |= (byte & 0x7f) << (7 * (position - start));
      position++;
    }
    if (found < count) values[found] = value;
    found++;
  }
  if (found !== count) throw wrongCount(count, found, at);
  return values;
}

/** The error for a list whose number of values does not fit the shape. */
export function wrongCount(wanted: number, found: number, at: Location): FormatError {
  const message = `Cannot read ONNX ${at.path ?? "data"}: must hold ${wanted} values, found ${found}`;
  return new FormatError("format/onnx.data-length", message, at);
}

function unended(at: Location): FormatError {
  const message = `Cannot read ONNX ${at.path ?? "data"}: a number must end within ten bytes and inside its message`;
  return new FormatError("format/onnx.varint", message, at);
}

/** A key and its value, as in metadata_props and external_data. */
export async function readStringEntry(
  reader: ProtoReader,
  field: Field,
  path: string,
): Promise<readonly [key: string, value: string]> {
  const texts = ["", ""];
  await reader.walkIn(field, path, (inner) => {
    if (inner.number !== 1 && inner.number !== 2) {
      reader.unknown("StringStringEntryProto", inner);
      return undefined;
    }
    return reader.text(inner, `${path}.${inner.number === 1 ? "key" : "value"}`).then((text) => {
      texts[inner.number - 1] = text;
    });
  });
  const [key = "", value = ""] = texts;
  return [key, value];
}

/** Adds a key and its value to a list. Keys should be different; if they are not, the first value counts. */
export async function readProperty(
  reader: ProtoReader,
  field: Field,
  { path, texts }: { readonly path: string; readonly texts: Map<string, string> },
): Promise<void> {
  const [key, value] = await readStringEntry(reader, field, path);
  const known = texts.get(key);
  if (known === undefined) texts.set(key, value);
  else if (known !== value) reader.surplus.repeated(key, `${path} has it twice; the first value is used`);
}
