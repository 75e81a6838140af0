import type { Bytes } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { encodeHex } from "../../../base/text.ts";
import type { Steps } from "../../../base/turns.ts";
import type { Shape } from "../../../model/dtype.ts";
import type { Json } from "../../../model/origin/origin.ts";
import { KeyTable } from "../../../primitives/encoding/key-table.ts";
import { MsgpackReader } from "../../../primitives/encoding/msgpack-reader.ts";
import { type MsgpackValue, readMsgpackValue } from "../../../primitives/encoding/msgpack-value.ts";
import { MsgpackWriter } from "../../../primitives/encoding/msgpack-writer.ts";
import { ENTRY_FIELD, ENTRY_FIELDS, HASH_BYTES } from "../layout.ts";
import type { AeroLimits } from "../limits.ts";
import { type FurtherKeys, type StoredPairs, writePairs } from "./further-keys.ts";

/** One entry of the tensor index (spec, "TIDX Schema"); its numbers are checked to be integers of at least 0. */
export interface TensorEntry {
  readonly name: string;
  /** Bytes of the name as stored. */
  readonly nameBytes: number;
  readonly dtype: number;
  readonly shape: Shape;
  readonly shardId: number;
  readonly dataOff: number;
  readonly dataLen: number;
  readonly quantId: number | undefined;
  readonly quantParams: MsgpackValue | undefined;
  /** 64 lower-case hex digits. */
  readonly hash: string | undefined;
}

/** Where the content is, for messages. */
export interface ContentPlace {
  readonly label: string;
  /** Offset of the chunk. */
  readonly offset: number;
}

/** No use of `quant_params` needs more; a map of a million values would only waste memory. */
const MAX_QUANT_VALUES = 1024;

const WHAT = "AERO TIDX";

/** The bounds of `quant_params`. */
export const QUANT_PARAMS = { what: WHAT, maxValues: MAX_QUANT_VALUES };

/** Takes the entries one by one. The object is reused for the next entry: keep its values, never the object. */
export type EntryVisitor = (entry: TensorEntry, index: number) => void;

/** Where the content is, and what it may hold. */
interface TidxOptions {
  readonly place: ContentPlace;
  readonly limits: AeroLimits;
  /** Takes the keys that the specification does not name. */
  readonly further?: FurtherKeys | undefined;
}

/**
 * Walks the entries in order, one step each, without a new object for each: there may be a million. Throws at the first
 * entry that breaks the schema, and names it. Unknown keys go to `further` as stored.
 */
export function decodeTidx(content: Bytes, options: TidxOptions, visit: EntryVisitor): Steps<void> {
  return new TidxDecoder(content, options).run(visit);
}

class TidxDecoder {
  readonly #content: Bytes;
  readonly #reader: MsgpackReader;
  readonly #limits: AeroLimits;
  readonly #further: FurtherKeys | undefined;
  readonly #draft = new Draft();
  readonly #keys = new KeyTable(ENTRY_FIELDS);
  #index = -1;

  constructor(content: Bytes, { place, limits, further }: TidxOptions) {
    const path = (): string => (this.#index < 0 ? "tidx" : `tensors[${this.#index}]`);
    this.#content = content;
    this.#reader = new MsgpackReader(content, { source: place.label, base: place.offset, what: WHAT, path });
    this.#limits = limits;
    this.#further = further;
  }

  *run(visit: EntryVisitor): Steps<void> {
    const reader = this.#reader;
    let seen = 0;
    for (let left = reader.readMapHeader(); left > 0; left--) {
      const start = reader.offset;
      const key = reader.readKey();
      if (key !== "tensors") {
        reader.skip(key);
        this.#further?.root(key, this.#content.subarray(start, reader.offset));
      } else if (++seen === 1) yield* this.#readEntries(visit);
      else throw this.#fault('the key "tensors" must come once');
    }
    reader.checkEnd();
  }

  *#readEntries(visit: EntryVisitor): Steps<void> {
    const reader = this.#reader;
    const count = reader.readArrayHeader("tensors");
    const what = "an AERO index of this many tensors";
    checkLimit(count, this.#limits.tensors, what, "limit/aero.tensors", reader.at("tensors"));
    for (this.#index = 0; this.#index < count; this.#index++) {
      this.#readEntry();
      visit(this.#draft, this.#index);
      yield;
    }
    this.#index = -1;
  }

  #readEntry(): void {
    const reader = this.#reader;
    const draft = this.#draft;
    draft.clear();
    for (let left = reader.readMapHeader(); left > 0; left--) {
      const start = reader.offset;
      const field = reader.readKnownKey(this.#keys);
      if (field < 0 || field === ENTRY_FIELD.flags) {
        const value = field < 0 ? undefined : reader.offset;
        reader.skip(field < 0 ? reader.readKey() : ENTRY_FIELDS[field]);
        // Writers put a 0 there, one byte: only another value carries information.
        const isUsual = value !== undefined && reader.offset === value + 1 && this.#content[value] === 0;
        if (!isUsual) draft.further.push(this.#content.subarray(start, reader.offset));
        continue;
      }
      const bit = 1 << field;
      if ((draft.seen & bit) !== 0) throw this.#fault(`the key "${ENTRY_FIELDS[field]}" must come once`);
      draft.seen |= bit;
      this.#readField(draft, field);
    }
    if ((draft.seen & REQUIRED) === REQUIRED) {
      if (draft.further.length > 0) this.#further?.entry(draft.name, draft.further);
      return;
    }
    const missing = ENTRY_FIELDS.filter((_, i) => (REQUIRED & (1 << i)) !== 0 && (draft.seen & (1 << i)) === 0);
    throw this.#fault(`must have "${missing.join('", "')}"`);
  }

  #readField(draft: Draft, field: number): void {
    const reader = this.#reader;
    switch (field) {
      case ENTRY_FIELD.name:
        this.#readName(draft);
        break;
      case ENTRY_FIELD.dtype:
        draft.dtype = reader.readUint("dtype");
        break;
      case ENTRY_FIELD.shape:
        draft.shape = this.#readShape(draft.shape);
        break;
      case ENTRY_FIELD.shard_id:
        draft.shardId = reader.readUint("shard_id");
        break;
      case ENTRY_FIELD.data_off:
        draft.dataOff = reader.readUint("data_off");
        break;
      case ENTRY_FIELD.data_len:
        draft.dataLen = reader.readUint("data_len");
        break;
      case ENTRY_FIELD.quant_id:
        if (reader.peekType("quant_id") === "nil") reader.readNil();
        else draft.quantId = reader.readUint("quant_id");
        break;
      case ENTRY_FIELD.quant_params:
        if (reader.peekType("quant_params") === "nil") reader.readNil();
        else draft.quantParams = readMsgpackValue(reader, QUANT_PARAMS, "quant_params");
        break;
      default:
        draft.hash = this.#readHash("hash_b3");
    }
  }

  #readName(draft: Draft): void {
    const reader = this.#reader;
    const start = reader.offset;
    draft.name = reader.readString("name");
    draft.nameBytes = reader.offset - start;
    if (draft.nameBytes <= this.#limits.nameBytes) return; // a location for every name would cost more than the name
    const what = "a tensor name of this many bytes";
    checkLimit(draft.nameBytes, this.#limits.nameBytes, what, "limit/aero.name-bytes", reader.at("name", start));
  }

  /** Neighbours often have the same shape; they then share one array. `last` is the shape of the entry before. */
  #readShape(last: Shape): Shape {
    const reader = this.#reader;
    const rank = reader.readArrayHeader("shape");
    if (rank > 4) {
      const what = "a tensor of this many dimensions";
      checkLimit(rank, this.#limits.dimensions, what, "limit/aero.dimensions", reader.at("shape"));
    }
    let shape: number[] | undefined = rank === last.length ? undefined : [];
    for (let i = 0; i < rank; i++) {
      const dimension = reader.readUint("shape");
      if (shape === undefined && dimension !== last[i]) shape = last.slice(0, i);
      shape?.push(dimension);
    }
    return shape ?? last;
  }

  /** Empty text and nil both mean that there is no digest, as in the reference. */
  #readHash(key: string): string | undefined {
    const reader = this.#reader;
    if (reader.peekType(key) === "nil") {
      reader.readNil(key);
      return undefined;
    }
    const start = reader.offset;
    const text = reader.readString(key);
    if (text === "") return undefined;
    if (!/^[0-9a-fA-F]{64}$/.test(text)) {
      throw this.#fault(`hash_b3 must have 64 hex digits, found ${text.length} characters`, start);
    }
    return text.toLowerCase();
  }

  #fault(problem: string, position?: number): FormatError {
    const at = this.#reader.at(undefined, position);
    return new FormatError("format/aero.tidx", `Cannot read ${WHAT}: ${at.path} ${problem}`, at);
  }
}

/** The first six fields; the others are optional in the specification. */
const REQUIRED = 0b11_1111;

/** An entry while it is read. */
class Draft implements TensorEntry {
  seen = 0;
  name = "";
  nameBytes = 0;
  dtype = 0;
  shape: Shape = [];
  shardId = 0;
  dataOff = 0;
  dataLen = 0;
  quantId: number | undefined = undefined;
  quantParams: MsgpackValue | undefined = undefined;
  hash: string | undefined = undefined;
  /** Views of pairs that no field above covers. */
  further: Bytes[] = [];

  /** Required fields need no reset: the next entry overwrites them or is refused. */
  clear(): void {
    this.seen = 0;
    this.quantId = undefined;
    this.quantParams = undefined;
    this.hash = undefined;
    if (this.further.length > 0) this.further = [];
  }
}

/** One entry of the tensor index, as TIDX spells it (spec, "TIDX Schema"). */
export interface TensorRow {
  readonly name: string;
  /** dtype id. */
  readonly dtype: number;
  readonly shape: Shape;
  readonly shardId: number;
  /** Offset from the start of the shard. */
  readonly dataOff: number;
  readonly dataLen: number;
  /** Index into the MJSN's `quant_descriptors`; packed tensors only. */
  readonly quantId?: number | undefined;
  /** Bytes are MessagePack, written as they are. */
  readonly quantParams?: { readonly [key: string]: Json } | Bytes | undefined;
  /** Keys that the specification does not name. */
  readonly further?: StoredPairs | undefined;
}

const NO_HASH: Bytes = new Uint8Array(HASH_BYTES);

/** The TIDX payload before compression; `hashes` are the tensors' BLAKE3-256, in the order of the rows. */
export function encodeTensorIndex(
  rows: readonly TensorRow[],
  hashes?: readonly (Bytes | undefined)[],
  further?: StoredPairs,
): Bytes {
  const writer = new MsgpackWriter();
  writeRoot(writer, rows.length, further);
  rows.forEach((row, i) => {
    writeRow(writer, row, hashes?.[i]);
  });
  return writer.take();
}

/** The length of `encodeTensorIndex`: digests are hex of fixed length, so they need not be known yet. */
export function measureTensorIndex(
  rows: readonly TensorRow[],
  kind: "plain" | "hashed",
  further?: StoredPairs,
): number {
  const writer = new MsgpackWriter();
  writeRoot(writer, rows.length, further);
  let byteLength = writer.take().byteLength;
  for (const row of rows) {
    writeRow(writer, row, kind === "hashed" ? NO_HASH : undefined);
    byteLength += writer.take().byteLength;
  }
  return byteLength;
}

/** Further keys come first, so that the entries end the map. */
function writeRoot(writer: MsgpackWriter, count: number, further: StoredPairs | undefined): void {
  writer.map(1 + (further?.count ?? 0));
  writePairs(writer, further);
  writer.string("tensors");
  writer.array(count);
}

/** Keys in the order of the reference writer; `hash_b3` is always last. */
function writeRow(writer: MsgpackWriter, row: TensorRow, hash: Bytes | undefined): void {
  const { name, dtype, shape, shardId, dataOff, dataLen, quantId, quantParams, further } = row;
  const optional = [quantId, quantParams, hash].filter((item) => item !== undefined).length;
  const flags = further?.flags === undefined ? 1 : 0;
  writer.map(6 + flags + optional + (further?.count ?? 0));
  writer.string("name");
  writer.string(name);
  writeNumber(writer, "dtype", dtype);
  writer.string("shape");
  writer.array(shape.length);
  for (const dimension of shape) writer.uint(dimension);
  writeNumber(writer, "shard_id", shardId);
  writeNumber(writer, "data_off", dataOff);
  writeNumber(writer, "data_len", dataLen);
  if (flags > 0) writeNumber(writer, "flags", 0);
  writePairs(writer, further);
  if (quantId !== undefined) writeNumber(writer, "quant_id", quantId);
  if (quantParams !== undefined) {
    writer.string("quant_params");
    if (quantParams instanceof Uint8Array) writer.encoded(quantParams);
    else writeJson(writer, quantParams);
  }
  if (hash !== undefined) {
    writer.string("hash_b3");
    writer.string(encodeHex(hash));
  }
}

function writeNumber(writer: MsgpackWriter, key: string, value: number): void {
  writer.string(key);
  writer.uint(value);
}

function writeJson(writer: MsgpackWriter, value: Json): void {
  if (value === null) writer.nil();
  else if (typeof value === "boolean") writer.bool(value);
  else if (typeof value === "string") writer.string(value);
  else if (typeof value === "number") {
    if (Number.isSafeInteger(value)) writer.int(value);
    else writer.float64(value);
  } else if (isList(value)) {
    writer.array(value.length);
    for (const item of value) writeJson(writer, item);
  } else {
    const members = Object.entries(value);
    writer.map(members.length);
    for (const [key, item] of members) {
      writer.string(key);
      writeJson(writer, item);
    }
  }
}

function isList(value: readonly Json[] | { readonly [key: string]: Json }): value is readonly Json[] {
  return Array.isArray(value);
}
