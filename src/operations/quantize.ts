import type { Bytes } from "../base/bytes.ts";
import type { Location } from "../base/errors.ts";
import { alignUp } from "../base/integers.ts";
import { checkRange } from "../bytes/extents.ts";
import type { ReadOptions, Source, StreamOptions } from "../bytes/source.ts";
import { byteLengthOf, dtypeFacts } from "../model/dtype.ts";
import { staysFloat } from "../model/ggml/file-types.ts";
import { Tensor } from "../model/tensor.ts";
import { convertToFloat32, hasNumbers, itemOf, LITTLE_ENDIAN } from "../model/values/numbers.ts";
import type { Engine } from "../primitives/engine.ts";
import { QUANT_BYTES, QUANT_ELEMENTS, type Quantizer, type QuantType } from "../primitives/quant/quantizer.ts";

/** Elements encoded at once: the bound on memory for a read of any length. */
const PIECE_ELEMENTS = 1 << 18;

/** Why a tensor is not quantised; undefined where it is. */
type KeptReason =
  | "not floating point"
  | "fewer than two dimensions"
  | "rows are no multiple of 32"
  | "llama.cpp needs floats here";

/** Whose tensors are quantised: a GGUF's, whose names llama.cpp gives a meaning to, or any model's. */
type QuantizedNames = "gguf" | "any";

/**
 * ggml quantises matrices of floats whose rows hold whole blocks. Norms and biases have one dimension, cost next to
 * nothing and lose the most, so they stay as they are. Of a GGUF more stays: routers, positions, small convolutions.
 */
export function keptReason(tensor: Tensor, names: QuantizedNames = "any"): KeptReason | undefined {
  const facts = dtypeFacts(tensor.dtype);
  if (facts.layout !== "plain" || facts.family !== "float" || !hasNumbers(tensor.dtype)) return "not floating point";
  if (tensor.shape.length < 2) return "fewer than two dimensions";
  if (names === "gguf" && staysFloat(tensor)) return "llama.cpp needs floats here";
  return (tensor.shape.at(-1) ?? 0) % QUANT_ELEMENTS === 0 ? undefined : "rows are no multiple of 32";
}

/** True for tensors of quantised blocks, whether or not we can read their values. */
export function isBlockType({ dtype }: Tensor): boolean {
  return dtypeFacts(dtype).layout === "block" || dtype === "APR_Q4" || dtype === "APR_Q8";
}

interface QuantizeOptions {
  readonly quantizer: Quantizer;
  /** Where it has workers, they encode long runs; not while errors are measured. */
  readonly engine?: Pick<Engine, "quantizeRange"> | undefined;
  /** Called with blocks whose scale is infinite or no number, as they are encoded: they decode to nothing useful. */
  readonly onBadBlocks?: ((tensor: Tensor, count: number) => void) | undefined;
  /** Called once, when the last block of the tensor was encoded for the first time. */
  readonly onError?: ((tensor: Tensor, error: QuantError) => void) | undefined;
}

/** The same tensor in blocks, encoded as it is read. `keptReason` must be undefined. */
export function quantizeTensor(tensor: Tensor, type: QuantType, options: QuantizeOptions): Tensor {
  const { name, shape, offset, file } = tensor;
  const byteLength = byteLengthOf(type, shape, { source: file ?? name, path: name }) ?? 0;
  const facts = { name, dtype: type, shape, byteLength, offset, storedByteLength: tensor.storedByteLength, file };
  return new Tensor(facts, { source: () => new QuantizedSource(tensor, type, byteLength, options) });
}

/** Reads the elements that cover a range, encodes their blocks, hands out the range. */
class QuantizedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #tensor: Tensor;
  readonly #type: QuantType;
  readonly #inner: Source;
  readonly #itemBytes: number;
  readonly #options: QuantizeOptions;
  readonly #meter: ErrorMeter | undefined;
  /** Buffers for the stored bytes, used again: fresh pages cost as much as encoding does. */
  readonly #free: Bytes[] = [];

  constructor(tensor: Tensor, type: QuantType, byteLength: number, options: QuantizeOptions) {
    this.#tensor = tensor;
    this.#type = type;
    this.#inner = tensor.source();
    this.#itemBytes = itemOf(tensor.dtype)?.byteLength ?? 1;
    this.#options = options;
    this.#meter = options.onError === undefined ? undefined : new ErrorMeter(type, options.quantizer);
    this.label = this.#inner.label;
    this.byteLength = byteLength;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const result = options.into ?? new Uint8Array(byteLength);
    const made = await this.#delegate(offset, byteLength, options.signal);
    if (made !== undefined) {
      result.set(made);
      return result;
    }
    const blockBytes = QUANT_BYTES[this.#type];
    const end = offset + byteLength;
    for (let position = offset; position < end; ) {
      const first = Math.floor(position / blockBytes);
      const last = Math.min(Math.ceil(end / blockBytes), first + PIECE_ELEMENTS / QUANT_ELEMENTS);
      const start = first * blockBytes;
      // Whole blocks go straight to where they are wanted.
      const fits = start >= offset && last * blockBytes <= end;
      const room = fits
        ? result.subarray(start - offset, last * blockBytes - offset)
        : new Uint8Array((last - first) * blockBytes);
      await this.#encode(first, last, room, options.signal);
      if (!fits) result.set(room.subarray(position - start, Math.min(room.byteLength, end - start)), position - offset);
      position = Math.min(end, last * blockBytes);
    }
    return result;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    checkRange(this.label, this.byteLength, offset, byteLength);
    const pieceBytes = (PIECE_ELEMENTS / QUANT_ELEMENTS) * QUANT_BYTES[this.#type];
    // Pieces end where blocks do, so that no block is encoded twice.
    for (let position = offset; position < offset + byteLength; ) {
      const until = Math.min(offset + byteLength, alignUp(position + 1, pieceBytes));
      yield await this.read(position, until - position, { signal: options.signal });
      position = until;
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** The run from a worker; undefined where it is made here. */
  async #delegate(offset: number, byteLength: number, signal: AbortSignal | undefined): Promise<Bytes | undefined> {
    const { engine, onBadBlocks } = this.#options;
    if (engine?.quantizeRange === undefined || this.#meter !== undefined) return undefined;
    const { dtype, shape, byteLength: storedBytes } = this.#tensor;
    const request = { type: this.#type, dtype, shape, stored: this.#inner, storedBytes, offset, byteLength, signal };
    const made = await engine.quantizeRange(request);
    if (made !== undefined && made.badBlocks > 0) onBadBlocks?.(this.#tensor, made.badBlocks);
    return made?.bytes;
  }

  async #encode(first: number, last: number, into: Bytes, signal: AbortSignal | undefined): Promise<void> {
    const itemBytes = QUANT_ELEMENTS * this.#itemBytes;
    const tensor = this.#tensor;
    const byteLength = (last - first) * itemBytes;
    const { quantizer } = this.#options;
    // Floats that are stored as they are can be read to where they are encoded.
    const staged = tensor.dtype === "F32" ? quantizer.takeRoom?.(byteLength) : undefined;
    const room = staged ?? this.#free.pop() ?? new Uint8Array((PIECE_ELEMENTS / QUANT_ELEMENTS) * itemBytes);
    try {
      const place = room.subarray(0, byteLength);
      const bytes = await this.#inner.read(first * itemBytes, byteLength, { into: place, signal });
      const values = floatsOf(tensor.dtype, bytes, { source: this.label, path: tensor.name });
      const bad = quantizer.encode(this.#type, values, into);
      if (bad > 0) this.#options.onBadBlocks?.(tensor, bad);
      this.#meter?.add(first, values, into);
    } finally {
      if (staged === undefined) this.#free.push(room);
      else quantizer.giveRoom?.();
    }
    const blockCount = this.byteLength / QUANT_BYTES[this.#type];
    if (this.#meter?.isComplete(blockCount) === true) this.#options.onError?.(tensor, this.#meter.result());
  }
}

/** Float32 bytes as they lie, where the machine and the address allow it; everything else converted. */
function floatsOf(dtype: Tensor["dtype"], bytes: Bytes, at: Location): Float32Array<ArrayBuffer> {
  const isPlain = dtype === "F32" && LITTLE_ENDIAN && bytes.byteOffset % 4 === 0;
  if (!isPlain) return convertToFloat32(dtype, bytes, at);
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}

/** What quantising cost one tensor, measured on the values that will be read back. */
export interface QuantError {
  readonly elementCount: number;
  /** Root of the mean squared difference. */
  readonly rmse: number;
  /** `rmse` as a share of the root mean square of the values; 0 for a tensor of zeros. */
  readonly relative: number;
  readonly maxAbs: number;
  /** Blocks whose scale is infinite or no number: they decode to nothing useful. */
  readonly badBlocks: number;
}

/** Adds up the differences while a tensor is encoded. Blocks that are encoded again are counted once. */
class ErrorMeter {
  readonly #type: QuantType;
  readonly #quantizer: Quantizer;
  #back = new Float32Array(0);
  #nextBlock = 0;
  #reported = false;
  #squares = 0;
  #power = 0;
  #maxAbs = 0;
  #badBlocks = 0;

  constructor(type: QuantType, quantizer: Quantizer) {
    this.#type = type;
    this.#quantizer = quantizer;
  }

  /** Blocks from `first` on; anything before the last one seen is passed over. */
  add(first: number, values: Float32Array<ArrayBuffer>, blocks: Bytes): void {
    const skip = Math.max(0, this.#nextBlock - first);
    const count = values.length / QUANT_ELEMENTS - skip;
    if (first > this.#nextBlock || count <= 0) return;
    if (this.#back.length < count * QUANT_ELEMENTS) this.#back = new Float32Array(count * QUANT_ELEMENTS);
    const back = this.#back.subarray(0, count * QUANT_ELEMENTS);
    this.#quantizer.decode(this.#type, blocks.subarray(skip * QUANT_BYTES[this.#type]), back);
    for (let block = 0; block < count; block++) this.#addBlock(values, skip + block, back, block);
    this.#nextBlock += count;
  }

  /** True once, when every block has been seen. */
  isComplete(blockCount: number): boolean {
    if (this.#reported || this.#nextBlock < blockCount) return false;
    this.#reported = true;
    return true;
  }

  result(): QuantError {
    const elementCount = this.#nextBlock * QUANT_ELEMENTS;
    const rmse = Math.sqrt(this.#squares / elementCount);
    const relative = this.#power === 0 ? 0 : Math.sqrt(this.#squares / this.#power);
    return { elementCount, rmse, relative, maxAbs: this.#maxAbs, badBlocks: this.#badBlocks };
  }

  #addBlock(values: Float32Array<ArrayBuffer>, block: number, back: Float32Array<ArrayBuffer>, decoded: number): void {
    let squares = 0;
    let power = 0;
    for (let j = 0; j < QUANT_ELEMENTS; j++) {
      const value = values[block * QUANT_ELEMENTS + j] as number;
      const difference = Math.abs(value - (back[decoded * QUANT_ELEMENTS + j] as number));
      squares += difference * difference;
      power += value * value;
      if (difference > this.#maxAbs) this.#maxAbs = difference;
    }
    if (Number.isFinite(squares)) {
      this.#squares += squares;
      this.#power += power;
    } else {
      this.#badBlocks++;
    }
  }
}
