import { FormatError, isTareError, type Location, reviveError } from "../../base/errors.ts";
import { checkedAdd } from "../../base/integers.ts";
import { NameSet } from "../../base/name-set.ts";
import { encodeBase64, printable } from "../../base/text.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Shape } from "../../model/dtype.ts";
import { byteLengthOf, DTYPES, type DType, isDType, type KnownDType } from "../../model/dtype.ts";
import type { Finding, Loss } from "../../model/finding.ts";
import type { Verification } from "../../model/model.ts";
import type { Json } from "../../model/origin/origin.ts";
import { Tensor, type TensorReader } from "../../model/tensor.ts";
import { encodeMsgpack, type MsgpackValue } from "../../primitives/encoding/msgpack-value.ts";
import { type FurtherKeys, MAX_FURTHER_BYTES } from "./chunks/further-keys.ts";
import type { TensorEntry } from "./chunks/tidx.ts";
import type { Chunk } from "./chunks/toc.ts";
import { dtypeOf, ggmlType, PACKED_ID } from "./layout.ts";
import { HashedTensorReader } from "./weights/hashed-tensor.ts";
import type { Shard, Shards } from "./weights/shards.ts";

/** Above these the C++ reader refuses the file. */
const COMMON_NAME_BYTES = 4096;
const COMMON_RANK = 32;

/** A digest of one tensor, as its index entry gives it. */
export interface TensorHash {
  readonly tensor: Tensor;
  readonly shard: Shard;
  /** 64 lower-case hex digits. */
  readonly hash: string;
  /** `data_len`: the bytes that the digest covers. */
  readonly byteLength: number;
}

/** The fields that describe a packed tensor. */
export type PackedTensor = Pick<TensorEntry, "name" | "quantId" | "quantParams">;

/** The index, resolved: every tensor with its shard. */
export interface ResolvedIndex {
  readonly tensors: readonly Tensor[];
  /** `shards[i]` holds `tensors[i]`. */
  readonly shards: readonly Shard[];
  readonly hashes: readonly TensorHash[];
  /** Packed tensors that we read as bytes: a writer needs these fields to write them again. */
  readonly packed: readonly PackedTensor[];
  readonly warnings: readonly Finding[];
}

interface IndexOptions {
  readonly convention: Convention;
  /** The TIDX chunk, for messages. */
  readonly chunk: Chunk;
  readonly shards: Shards;
  /** Takes what the fields of a tensor say and our types do not. */
  readonly further: FurtherKeys;
}

/** Makes tensors of index entries. */
export class IndexResolver {
  readonly #options: IndexOptions;
  readonly #warnings = new IndexWarnings();
  readonly #tensors: Tensor[] = [];
  readonly #shards: Shard[] = [];
  readonly #hashes: TensorHash[] = [];
  readonly #packed: PackedTensor[] = [];
  readonly #names = new NameSet();
  readonly #at: Location;

  constructor(options: IndexOptions) {
    this.#options = options;
    this.#at = { source: options.shards.context.label, offset: options.chunk.offset };
  }

  /** Refuses a duplicate name, a tensor outside its shard, and fewer bytes than shape × dtype needs. */
  add(entry: TensorEntry, index: number): void {
    const shard = this.#options.shards.get(entry.shardId);
    const tensor = this.#resolve(entry, index, shard);
    this.#tensors.push(tensor);
    this.#shards.push(shard);
    if (this.#names.add(entry.name) === "duplicate") throw this.#duplicate(entry, index);
  }

  finish(): ResolvedIndex {
    const warnings = this.#warnings.findings(this.#at);
    return {
      tensors: this.#tensors,
      shards: this.#shards,
      hashes: this.#hashes,
      packed: this.#packed,
      warnings,
    };
  }

  #resolve(entry: TensorEntry, index: number, shard: Shard): Tensor {
    const type = this.#typeOf(entry, index);
    const { dtype, shape, byteLength } = type;
    if (byteLength > entry.dataLen) throw this.#tooShort(entry, index, type);
    this.#warnings.look(entry, type, shard);
    const { name, quantId, quantParams } = entry;
    if (dtype === "PACKED") this.#packed.push({ name, quantId, quantParams });
    else if (hasFurtherParams(entry)) this.#options.further.unplaced(`quant_params of "${printable(name)}"`);
    if (shard.chunk === undefined || shard.problem !== undefined) {
      // Nothing of it is in the file: it is listed, and reading it fails with the reason.
      return new Tensor({ name, dtype, shape, byteLength, offset: 0, storedByteLength: 0 }, shard);
    }
    const end = checkedAdd(entry.dataOff, entry.dataLen, this.#at);
    if (end > shard.chunk.byteLength) throw this.#outside(entry, index, shard.chunk.byteLength);
    const offset = shard.chunk.offset + entry.dataOff;
    const facts = { name, dtype, shape, byteLength, offset, storedByteLength: entry.dataLen };
    const tensor = new Tensor(facts, this.#readerOf(entry, shard, offset));
    if (entry.hash !== undefined) this.#hashes.push({ tensor, shard, hash: entry.hash, byteLength: entry.dataLen });
    return tensor;
  }

  #readerOf(entry: TensorEntry, shard: Shard, offset: number): TensorReader {
    const { name, hash, dataLen } = entry;
    if (hash === undefined || verificationBy(hash, dataLen, shard) === "pages") return shard;
    const { source, engine, limits, spool } = this.#options.shards.context;
    const stored = sliceSource(source, offset, dataLen);
    const paged = shard.pages === undefined ? undefined : shard;
    return new HashedTensorReader({ name, hash, stored, offset, engine, maxBytes: limits.verifyBytes, spool, paged });
  }

  #typeOf(entry: TensorEntry, index: number): TensorType {
    try {
      return typeOfEntry(entry, this.#options.convention, this.#at);
    } catch (error) {
      if (!isTareError(error)) throw error;
      throw reviveError({ ...error.toJSON(), at: this.#path(index, "shape") });
    }
  }

  #path(index: number, field: string): Location {
    return { ...this.#at, path: `tensors[${index}].${field}` };
  }

  #duplicate({ name }: TensorEntry, index: number): FormatError {
    const message = `Cannot read AERO TIDX: names must be unique, found "${printable(name)}" twice`;
    return new FormatError("format/aero.duplicate-name", message, this.#path(index, "name"));
  }

  #tooShort({ name, dataLen }: TensorEntry, index: number, { dtype, shape, byteLength }: TensorType): FormatError {
    const message = `Cannot read tensor "${printable(name)}": ${dtype} [${shape.join(", ")}] needs data_len ${byteLength}, found ${dataLen}`;
    return new FormatError("format/aero.tensor-size", message, this.#path(index, "data_len"));
  }

  #outside({ name, dataOff, dataLen, shardId }: TensorEntry, index: number, shardBytes: number): FormatError {
    const message = `Cannot read tensor "${printable(name)}": data_off + data_len must be <= ${shardBytes}, the length of shard ${shardId}, found ${dataOff + dataLen}`;
    return new FormatError("format/aero.tensor-bounds", message, this.#path(index, "data_off"));
  }
}

/**
 * True if `quant_id` and `quant_params` say more than the type that they are read as. A plain tensor needs neither, and
 * a tensor of blocks only the name of the blocks (`write/tensors.ts` writes that again).
 */
function hasFurtherParams({ dtype, quantId, quantParams }: TensorEntry): boolean {
  if (dtype !== PACKED_ID) return quantId !== undefined || quantParams !== undefined;
  return quantParams?.type !== "map" || quantParams.entries.length !== 1;
}

/** A tensor this many times smaller than a page is read alone: its page would cost more than the tensor. */
const LONELY = 4;
/** Bytes that a page takes in PHSH, at least: its digest (AIP-0002). */
const PAGE_ROW = 32;

/**
 * Which digest checks the reads of a tensor. Pages need only the requested bytes plus the rest of the first and the
 * last page. So a tensor much smaller than a page is checked by its own digest. The length of pages is known only when
 * PHSH is read, but the length of PHSH gives a good estimate.
 */
export function verificationBy(hash: string | undefined, byteLength: number, { pages, chunk }: Shard): Verification {
  if (pages === undefined) return hash === undefined ? "unverified" : "tensor";
  const pageBytes = (chunk?.byteLength ?? 0) / Math.max(1, Math.floor(pages.ulen / PAGE_ROW));
  return hash !== undefined && byteLength * LONELY <= pageBytes ? "tensor" : "pages";
}

/** One line for each kind of oddity, however many tensors have it. */
class IndexWarnings {
  readonly #rows = new Map<
    string,
    { count: number; readonly first: string; readonly text: string; readonly hint?: string }
  >();

  look(entry: TensorEntry, { byteLength }: TensorType, shard: Shard): void {
    const { name, dataLen, nameBytes, shape } = entry;
    if (dataLen > byteLength) {
      const text = "with bytes after the last element, such as padding taken over from GGUF; they are left out";
      this.#add("format/aero.tensor-padding", name, text);
    }
    if (nameBytes > COMMON_NAME_BYTES) this.#add("format/aero.long-name", "", "with a name above 4096 bytes");
    if (shape.length > COMMON_RANK) this.#add("format/aero.rank", name, "with more than 32 dimensions");
    if (shard.problem !== undefined) {
      this.#add(shard.problem.code, name, `that cannot be read: ${shard.problem.message}`);
    }
  }

  findings(at: Location): Finding[] {
    return [...this.#rows].map(([code, { count, first, text }]) => {
      const name = first === "" ? "" : `, the first is "${printable(first)}"`;
      const message = `${count} ${count === 1 ? "tensor" : "tensors"} ${text}${name}`;
      return { severity: "warning", code, message, at: { ...at, path: "tensors" } };
    });
  }

  #add(code: string, name: string, text: string): void {
    const row = this.#rows.get(code);
    if (row === undefined) this.#rows.set(code, { count: 1, first: name, text });
    else row.count++;
  }
}

/**
 * The meaning of shapes and lengths. The reference's GGUF converter keeps GGUF's order of dimensions, innermost first,
 * and counts padding as data; every other writer lists the outermost first.
 */
export type Convention = "row-major" | "gguf";

/** The type of a tensor, and how many of its stored bytes belong to it. */
interface TensorType {
  readonly dtype: DType;
  readonly shape: Shape;
  /** At most `data_len`, unless the entry is wrong; the caller compares. */
  readonly byteLength: number;
}

/** Padding that writers of packed data may have copied from GGUF, whose default alignment is 32. */
const GGUF_PADDING = 32;

const BLOCK_TYPES: ReadonlyMap<number, DType> = new Map(
  (Object.keys(DTYPES) as KnownDType[]).flatMap((dtype) => {
    const ggml = ggmlType(dtype);
    return ggml === undefined ? [] : [[ggml.id, dtype] as const];
  }),
);

/** Throws if shape × dtype overflows. */
function typeOfEntry(entry: TensorEntry, convention: Convention, at: Location): TensorType {
  const shape = convention === "gguf" && entry.shape.length > 1 ? [...entry.shape].reverse() : entry.shape;
  if (entry.dtype === PACKED_ID) return packedType(entry, shape, convention, at);
  const dtype = dtypeOf(entry.dtype);
  return { dtype, shape, byteLength: byteLengthOf(dtype, shape, at) ?? entry.dataLen };
}

/** Packed data is what `quant_params` says if the length agrees; else bytes. */
function packedType(entry: TensorEntry, shape: Shape, convention: Convention, at: Location): TensorType {
  const { dataLen, quantParams } = entry;
  const block = BLOCK_TYPES.get(Number(numberParam(quantParams, "ggml_type") ?? -1));
  if (block !== undefined) {
    const byteLength = lengthOf(block, shape, at);
    const slack = convention === "gguf" ? dataLen : GGUF_PADDING - 1;
    if (byteLength !== undefined && byteLength <= dataLen && dataLen - byteLength <= slack) {
      return { dtype: block, shape, byteLength };
    }
  }
  const named = textParam(quantParams, "dtype");
  if (named !== undefined && isDType(named) && lengthOf(named, shape, at) === dataLen) {
    return { dtype: named, shape, byteLength: dataLen };
  }
  return { dtype: "PACKED", shape, byteLength: dataLen };
}

/** Undefined if the type cannot have that shape, or has no fixed length. */
function lengthOf(dtype: DType, shape: Shape, at: Location): number | undefined {
  try {
    return byteLengthOf(dtype, shape, at);
  } catch (error) {
    if (isTareError(error)) return undefined; // a row that ends inside a block: the data is something else
    throw error;
  }
}

function param(params: MsgpackValue | undefined, key: string): MsgpackValue | undefined {
  return params?.type === "map" ? params.entries.find(([name]) => name === key)?.[1] : undefined;
}

function numberParam(params: MsgpackValue | undefined, key: string): number | bigint | undefined {
  const value = param(params, key);
  return value?.type === "integer" ? value.value : undefined;
}

function textParam(params: MsgpackValue | undefined, key: string): string | undefined {
  const value = param(params, key);
  return value?.type === "string" ? value.value : undefined;
}

/**
 * Rows of `quants`: `[name, quant_id, quant_params]`, or `[name, quant_id, null, their MessagePack in base64]` if JSON
 * cannot say the parameters exactly. Parameters that do not fit into `tare.origin` are losses.
 */
export function packedFacts(packed: readonly PackedTensor[]): {
  readonly rows: readonly Json[];
  readonly losses: readonly Loss[];
} {
  const rows: Json[] = [];
  const losses: Loss[] = [];
  let left = MAX_FURTHER_BYTES;
  for (const { name, quantId, quantParams } of packed) {
    if (quantId === undefined && quantParams === undefined) continue;
    const json = quantParams?.type === "map" ? toJson(quantParams) : undefined;
    if (quantParams === undefined || json !== undefined) {
      rows.push([name, quantId ?? null, json ?? null]);
      continue;
    }
    const encoded = encodeMsgpack(quantParams);
    left -= encoded.byteLength;
    if (left < 0) losses.push({ name, reason: "its quant_params are too long to be carried" });
    else rows.push([name, quantId ?? null, null, encodeBase64(encoded)]);
  }
  return { rows, losses };
}

/** Deeper parameters are carried as bytes, because readers limit the depth of `tare.origin`. */
const MAX_JSON_DEPTH = 16;

/** Undefined for a value that JSON cannot say exactly. */
function toJson(value: MsgpackValue, depth = 0): Json | undefined {
  if (depth > MAX_JSON_DEPTH) return undefined;
  switch (value.type) {
    case "nil":
      return null;
    case "bool":
    case "string":
      return value.value;
    case "float":
      // JSON has no infinity, and 1.0 would come back as an integer.
      return Number.isFinite(value.value) && !Number.isInteger(value.value) ? value.value : undefined;
    case "integer":
      return typeof value.value === "bigint" ? undefined : value.value;
    case "array": {
      const items = value.items.map((item) => toJson(item, depth + 1));
      return items.every((item): item is Json => item !== undefined) ? items : undefined;
    }
    case "map": {
      const entries = value.entries.map(([key, item]) => [key, toJson(item, depth + 1)] as const);
      const isPlain = entries.every((entry): entry is readonly [string, Json] => entry[1] !== undefined);
      return isPlain ? Object.fromEntries(entries) : undefined;
    }
    default:
      return undefined;
  }
}
