import type { Bytes } from "../base/bytes.ts";
import { checkRange } from "../bytes/extents.ts";
import type { ReadOptions, Source, StreamOptions } from "../bytes/source.ts";
import { decodeAprQ4, decodeAprQ8 } from "../primitives/quant/apr-blocks.ts";
import type { UnevenLayout } from "./uneven-layout.ts";
import { convertToFloat32 } from "./values.ts";

type Floats = Float32Array<ArrayBuffer>;

/** Float32 bytes that one step decodes. */
const PIECE_BYTES = 1 << 20;

/** The values of an uneven tensor as little-endian float32, decoded as they are read. */
export class UnevenSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #inner: Source;
  readonly #layout: UnevenLayout;
  #scale: number | undefined;

  constructor(inner: Source, layout: UnevenLayout) {
    this.#inner = inner;
    this.#layout = layout;
    this.label = inner.label;
    this.byteLength = 4 * layout.rows * layout.rowElements;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const result = options.into ?? new Uint8Array(byteLength);
    const end = offset + byteLength;
    for (let position = offset; position < end; ) {
      const first = Math.floor(position / 4);
      const last = Math.min(Math.ceil(end / 4), first + PIECE_BYTES / 4);
      const values = await this.#values(first, last, options.signal);
      const bytes = littleEndian(values).subarray(position - 4 * first);
      const piece = bytes.subarray(0, end - position);
      result.set(piece, position - offset);
      position += piece.byteLength;
    }
    return result;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    checkRange(this.label, this.byteLength, offset, byteLength);
    for (let done = 0; done < byteLength; done += PIECE_BYTES) {
      yield await this.read(offset + done, Math.min(PIECE_BYTES, byteLength - done), { signal: options.signal });
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Elements `first` … `last`, from the blocks that hold them. */
  async #values(first: number, last: number, signal: AbortSignal | undefined): Promise<Floats> {
    const { headBytes, blockBytes, blockElements, rowElements, rowBlocks } = this.#layout;
    const blockOf = (element: number): number =>
      Math.floor(element / rowElements) * rowBlocks + Math.floor((element % rowElements) / blockElements);
    const startBlock = blockOf(first);
    const endBlock = blockOf(last - 1) + 1;
    const count = endBlock - startBlock;
    const bytes = await this.#inner.read(headBytes + startBlock * blockBytes, count * blockBytes, { signal });
    const decoded = await this.#decode(bytes, count * blockElements, signal);
    const values = new Float32Array(last - first);
    for (let block = startBlock; block < endBlock; ) {
      const row = Math.floor(block / rowBlocks);
      const column = (block - row * rowBlocks) * blockElements;
      // All the blocks of a row that are here lie side by side.
      const stop = Math.min(endBlock, (row + 1) * rowBlocks);
      const from = row * rowElements + column;
      const until = Math.min((row + 1) * rowElements, from + (stop - block) * blockElements, last);
      const skip = Math.max(0, first - from);
      const start = (block - startBlock) * blockElements + skip;
      values.set(decoded.subarray(start, start + until - from - skip), from + skip - first);
      block = stop;
    }
    return values;
  }

  async #decode(bytes: Bytes, elementCount: number, signal: AbortSignal | undefined): Promise<Floats> {
    const { dtype } = this.#layout;
    if (dtype !== "APR_Q4" && dtype !== "APR_Q8") return convertToFloat32(dtype, bytes, { source: this.label });
    const values = new Float32Array(elementCount);
    if (dtype === "APR_Q4") decodeAprQ4(bytes, values);
    else decodeAprQ8(bytes, await this.#readScale(signal), values);
    return values;
  }

  async #readScale(signal: AbortSignal | undefined): Promise<number> {
    if (this.#scale !== undefined) return this.#scale;
    const bytes = await this.#inner.read(0, 4, { signal });
    this.#scale = new DataView(bytes.buffer, bytes.byteOffset).getFloat32(0, true);
    return this.#scale;
  }
}

function littleEndian(values: Floats): Bytes {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  if (new Uint8Array(new Uint16Array([1]).buffer)[0] === 1) return bytes;
  const view = new DataView(values.buffer, values.byteOffset, values.byteLength);
  for (let i = 0; i < values.length; i++) view.setFloat32(4 * i, values[i] as number, true);
  return bytes;
}
