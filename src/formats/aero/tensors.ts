import { FormatError, isTareError, type Location, reviveError } from "../../base/errors.ts";
import { checkedAdd } from "../../base/integers.ts";
import { NameSet } from "../../base/name-set.ts";
import { printable } from "../../base/text.ts";
import { sliceSource } from "../../bytes/slice.ts";
import { byteLengthOf, DTYPES, type DType, isDType, type KnownDType } from "../../model/dtype.ts";
import type { Finding } from "../../model/finding.ts";
import type { Verification } from "../../model/model.ts";
import type { Shape } from "../../model/shape.ts";
import { Tensor, type TensorReader } from "../../model/tensor.ts";
import type { MsgpackValue } from "../../primitives/encoding/msgpack-value.ts";
import type { FurtherKeys } from "./chunks/further-keys.ts";
import type { TensorEntry } from "./chunks/tidx.ts";
import type { Chunk } from "./chunks/toc.ts";
import { dtypeOf, ggmlType, PACKED_ID } from "./layout.ts";
import { HashedTensorReader } from "./weights/hashed-tensor.ts";
import type { Shard, Shards } from "./weights/shards.ts";

/** Beyond these the C++ reader refuses the file. */
const COMMON_NAME_BYTES = 4096;
const COMMON_RANK = 32;

/** A digest of one tensor, as its index entry gives it. */
export interface TensorHash {
  readonly tensor: Tensor;
  readonly shard: Shard;
  /** 64 lower-case hex digits. */
  readonly hash: string;
  /** `data_len`: what the digest covers. */
  readonly byteLength: number;
}

/** The fields of a packed tensor that say what it is. */
export type PackedTensor = Pick<TensorEntry, "name" | "quantId" | "quantParams">;

/** The index, resolved: every tensor with its shard. */
export interface ResolvedIndex {
  readonly tensors: readonly Tensor[];
  /** `shards[i]` holds `tensors[i]`. */
  readonly shards: readonly Shard[];
  readonly hashes: readonly TensorHash[];
  /** Packed tensors that stay bytes to us: what another writer needs to write them again. */
  readonly packed: readonly PackedTensor[];
  readonly warnings: readonly Finding[];
}

interface IndexOptions {
  readonly convention: Convention;
  /** The TIDX chunk, for messages. */
  readonly chunk: Chunk;
  readonly shards: Shards;
  /** Takes what the fields of a tensor say and a type of our own does not. */
  readonly further: FurtherKeys;
}

/** Takes index entries and makes tensors of them. */
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
      // Nothing of it is in the file: listed, and refused with the reason when it is read.
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
 * True where `quant_id` and `quant_params` say more than the type that they were understood as: a plain tensor needs
 * neither, and one of blocks only what names the blocks (`write/tensors.ts` writes that again).
 */
function hasFurtherParams({ dtype, quantId, quantParams }: TensorEntry): boolean {
  if (dtype !== PACKED_ID) return quantId !== undefined || quantParams !== undefined;
  return quantParams?.type !== "map" || quantParams.entries.length !== 1;
}

/** A tensor this many times smaller than a page is read alone: its page would cost more than it. */
const LONELY = 4;
/** Bytes that a page takes in PHSH, at least: its digest (AIP-0002). */
const PAGE_ROW = 32;

/**
 * What reads of a tensor are checked against. Pages need no more bytes than asked for, but for the rest of the first and
 * the last one: that is why a tensor much smaller than a page is checked by its own digest. How long pages are is known
 * only when PHSH is read; its length says it well enough.
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
      const text = "with bytes behind the last element, such as padding taken over from GGUF; they are left out";
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
 * How shapes and lengths are meant. The reference's GGUF converter keeps GGUF's order of dimensions, innermost first,
 * and counts padding as data; every other writer lists the outermost first.
 */
export type Convention = "row-major" | "gguf";

/** What a tensor is, and how many of its stored bytes are it. */
interface TensorType {
  readonly dtype: DType;
  readonly shape: Shape;
  /** At most `data_len`, unless the entry is wrong: the caller compares. */
  readonly byteLength: number;
}

/** Padding that other writers of packed data may have taken over from GGUF, whose default alignment is 32. */
const GGUF_PADDING = 32;

const BLOCK_TYPES: ReadonlyMap<number, DType> = new Map(
  (Object.keys(DTYPES) as KnownDType[]).flatMap((dtype) => {
    const ggml = ggmlType(dtype);
    return ggml === undefined ? [] : [[ggml.id, dtype] as const];
  }),
);

/** Throws where shape × dtype overflows. */
function typeOfEntry(entry: TensorEntry, convention: Convention, at: Location): TensorType {
  const shape = convention === "gguf" && entry.shape.length > 1 ? [...entry.shape].reverse() : entry.shape;
  if (entry.dtype === PACKED_ID) return packedType(entry, shape, convention, at);
  const dtype = dtypeOf(entry.dtype);
  return { dtype, shape, byteLength: byteLengthOf(dtype, shape, at) ?? entry.dataLen };
}

/** Packed data is what `quant_params` says, where the length bears that out; else bytes. */
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

/** Undefined where the type cannot have that shape, or does not say how long it is. */
function lengthOf(dtype: DType, shape: Shape, at: Location): number | undefined {
  try {
    return byteLengthOf(dtype, shape, at);
  } catch (error) {
    if (isTareError(error)) return undefined; // a row that ends inside a block: then it is something else
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
