import type { Bytes } from "../base/bytes.ts";
import type { Location } from "../base/errors.ts";
import { alignUp } from "../base/integers.ts";
import { checkRange } from "../bytes/extents.ts";
import type { ReadOptions, Source, StreamOptions } from "../bytes/source.ts";
import { byteLengthOf, type DType, dtypeFacts } from "../model/dtype.ts";
import { staysFloat } from "../model/ggml/retyping.ts";
import { Tensor } from "../model/tensor.ts";
import { convertToFloat32, hasNumbers, itemOf, LITTLE_ENDIAN, PIECE_ELEMENTS } from "../model/values/numbers.ts";
import type { Engine, QuantizedRange } from "../primitives/engine.ts";
import {
  findBadBlocks,
  QUANT_BYTES,
  QUANT_ELEMENTS,
  type Quantizer,
  type QuantType,
} from "../primitives/quant/quantizer.ts";
import { type BlockClaim, BlockTally, type QuantError } from "./quantize/tally.ts";

/** Why a tensor is not quantised; undefined if it is. */
type KeptReason =
  | "not floating point"
  | "fewer than two dimensions"
  | "rows are no multiple of 32"
  | "llama.cpp needs floats here";

/** The origin of the quantised tensors: a GGUF, whose names have a meaning in llama.cpp, or any model. */
type QuantizedNames = "gguf" | "any";

/**
 * ggml quantises matrices of floats whose rows hold whole blocks. Norms and biases have one dimension, cost next to
 * nothing and lose the most, so they stay floats. In a GGUF more tensors stay: routers, positions, small convolutions.
 */
export function keptReason(tensor: Tensor, names: QuantizedNames = "any"): KeptReason | undefined {
  const facts = dtypeFacts(tensor.dtype);
  if (facts.layout !== "plain" || facts.family !== "float" || !hasNumbers(tensor.dtype)) return "not floating point";
  if (tensor.shape.length < 2) return "fewer than two dimensions";
  if (names === "gguf" && staysFloat(tensor)) return "llama.cpp needs floats here";
  return (tensor.shape.at(-1) ?? 0) % QUANT_ELEMENTS === 0 ? undefined : "rows are no multiple of 32";
}

/** True for tensors of quantised blocks, even if we cannot read their values. */
export function isBlockType({ dtype }: Tensor): boolean {
  return dtypeFacts(dtype).layout === "block" || dtype === "APR_Q4" || dtype === "APR_Q8";
}

interface QuantizeOptions {
  readonly quantizer: Quantizer;
  /** If it has workers, they encode long runs, except while errors are measured. */
  readonly engine?: Pick<Engine, "quantizeRange"> | undefined;
  /**
   * Called during encoding with the indices of bad blocks: a value or the scale is infinite or NaN. Each block is told
   * once, however often it is read.
   */
  readonly onBadBlocks?: ((tensor: Tensor, blocks: readonly number[]) => void) | undefined;
  /** Called once, when every block of the tensor has been encoded. */
  readonly onError?: ((tensor: Tensor, error: QuantError) => void) | undefined;
}

/** The same tensor in blocks, encoded when it is read. `keptReason` must be undefined. */
export function quantizeTensor(tensor: Tensor, type: QuantType, options: QuantizeOptions): Tensor {
  const { name, shape, offset, file } = tensor;
  const byteLength = byteLengthOf(type, shape, { source: file ?? name, path: name }) ?? 0;
  const facts = { name, dtype: type, shape, byteLength, offset, storedByteLength: tensor.storedByteLength, file };
  const tally = new BlockTally(byteLength / QUANT_BYTES[type], {
    onBadBlocks: (blocks) => options.onBadBlocks?.(tensor, blocks),
    onComplete: (error) => options.onError?.(tensor, error),
  });
  return new Tensor(facts, { source: () => new QuantizedSource({ tensor, type, byteLength, tally, options }) });
}

interface QuantizedTensor {
  readonly tensor: Tensor;
  readonly type: QuantType;
  readonly byteLength: number;
  readonly tally: BlockTally;
  readonly options: QuantizeOptions;
}

/** Reads the elements that cover a range, encodes their blocks, and gives the range. */
class QuantizedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #tensor: Tensor;
  readonly #type: QuantType;
  readonly #inner: Source;
  readonly #itemBytes: number;
  readonly #options: QuantizeOptions;
  readonly #tally: BlockTally;
  /** Reused buffers for the stored bytes: fresh pages cost as much as encoding. */
  readonly #free: Bytes[] = [];

  constructor({ tensor, type, byteLength, tally, options }: QuantizedTensor) {
    this.#tensor = tensor;
    this.#type = type;
    this.#inner = tensor.source();
    this.#itemBytes = itemOf(tensor.dtype)?.byteLength ?? 1;
    this.#options = options;
    this.#tally = tally;
    this.label = this.#inner.label;
    this.byteLength = byteLength;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const result = options.into ?? new Uint8Array(byteLength);
    const blockBytes = QUANT_BYTES[this.#type];
    const claim = this.#tally.claim(Math.floor(offset / blockBytes), Math.ceil((offset + byteLength) / blockBytes));
    try {
      const made = await this.#delegate(offset, byteLength, { claim, signal: options.signal });
      if (made === undefined) await this.#encodeRange(offset, result, { claim, signal: options.signal });
      else result.set(made);
    } catch (error) {
      claim.drop();
      throw error;
    }
    claim.settle();
    return result;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    checkRange(this.label, this.byteLength, offset, byteLength);
    const pieceBytes = (PIECE_ELEMENTS / QUANT_ELEMENTS) * QUANT_BYTES[this.#type];
    // Pieces end at block borders, so that no block is encoded twice.
    for (let position = offset; position < offset + byteLength; ) {
      const until = Math.min(offset + byteLength, alignUp(position + 1, pieceBytes));
      yield await this.read(position, until - position, { signal: options.signal });
      position = until;
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** The run from a worker; undefined if it is made here. */
  async #delegate(offset: number, byteLength: number, { claim, signal }: Encoding): Promise<Bytes | undefined> {
    const { engine, onError } = this.#options;
    if (engine?.quantizeRange === undefined || onError !== undefined) return undefined;
    const { dtype, shape, byteLength: storedBytes } = this.#tensor;
    const request = { type: this.#type, dtype, shape, stored: this.#inner, storedBytes, offset, byteLength, signal };
    const made = await engine.quantizeRange(request);
    if (made !== undefined) claim.addBad(made.badBlocks);
    return made?.bytes;
  }

  async #encodeRange(offset: number, result: Bytes, encoding: Encoding): Promise<void> {
    const blockBytes = QUANT_BYTES[this.#type];
    const end = offset + result.byteLength;
    for (let position = offset; position < end; ) {
      const first = Math.floor(position / blockBytes);
      const last = Math.min(Math.ceil(end / blockBytes), first + PIECE_ELEMENTS / QUANT_ELEMENTS);
      const start = first * blockBytes;
      // Whole blocks are encoded directly into the result.
      const fits = start >= offset && last * blockBytes <= end;
      const room = fits
        ? result.subarray(start - offset, last * blockBytes - offset)
        : new Uint8Array((last - first) * blockBytes);
      await this.#encode(first, room, encoding);
      if (!fits) result.set(room.subarray(position - start, Math.min(room.byteLength, end - start)), position - offset);
      position = Math.min(end, last * blockBytes);
    }
  }

  async #encode(first: number, into: Bytes, { claim, signal }: Encoding): Promise<void> {
    const itemBytes = QUANT_ELEMENTS * this.#itemBytes;
    const tensor = this.#tensor;
    const byteLength = (into.byteLength / QUANT_BYTES[this.#type]) * itemBytes;
    const { quantizer, onError } = this.#options;
    const room = this.#free.pop() ?? new Uint8Array((PIECE_ELEMENTS / QUANT_ELEMENTS) * itemBytes);
    try {
      const place = room.subarray(0, byteLength);
      const bytes = await this.#inner.read(first * itemBytes, byteLength, { into: place, signal });
      const values = floatsOf(tensor.dtype, bytes, { source: this.label, path: tensor.name });
      const bad = quantizer.encode(this.#type, values, into);
      if (bad > 0) claim.addBad(findBadBlocks(this.#type, values, into).map((block) => first + block));
      if (onError !== undefined) claim.addErrors(first, values, blockValues(quantizer, this.#type, into));
    } finally {
      this.#free.push(room);
    }
  }
}

interface Encoding {
  readonly claim: BlockClaim;
  readonly signal: AbortSignal | undefined;
}

function blockValues(quantizer: Quantizer, type: QuantType, blocks: Bytes): Float32Array<ArrayBuffer> {
  const back = new Float32Array((blocks.byteLength / QUANT_BYTES[type]) * QUANT_ELEMENTS);
  quantizer.decode(type, blocks, back);
  return back;
}

/** Float32 bytes without a copy, if the machine and the address allow it; everything else is converted. */
function floatsOf(dtype: Tensor["dtype"], bytes: Bytes, at: Location): Float32Array<ArrayBuffer> {
  const isPlain = dtype === "F32" && LITTLE_ENDIAN && bytes.byteOffset % 4 === 0;
  if (!isPlain) return convertToFloat32(dtype, bytes, at);
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}

/** A run of blocks of a tensor whose stored elements a worker reads itself. */
export interface QuantizeRequest {
  readonly type: QuantType;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly storedBytes: number;
  readonly offset: number;
  readonly byteLength: number;
}

/** Rounds a run of a tensor whose stored bytes are `stored`. */
export async function quantizeStored(
  { type, dtype, shape, storedBytes, offset, byteLength }: QuantizeRequest,
  stored: Source,
  context: { readonly engine: Engine; readonly signal: AbortSignal },
): Promise<QuantizedRange> {
  const facts = { name: stored.label, dtype, shape, byteLength: storedBytes, offset: 0 };
  const badBlocks: number[] = [];
  const blocks = quantizeTensor(new Tensor(facts, { source: () => stored }), type, {
    quantizer: await context.engine.quantizer(),
    onBadBlocks: (_, found) => {
      for (const block of found) badBlocks.push(block);
    },
  });
  const bytes = await blocks.source().read(offset, byteLength, { signal: context.signal });
  return { bytes, badBlocks };
}
