import type { Bytes } from "../../base/bytes.ts";
import type { Source } from "../../bytes/source.ts";
import { decodeAprQ4, decodeAprQ8 } from "../../primitives/quant/blocks.ts";
import type { Shape } from "../dtype.ts";
import { type DType, dtypeFacts } from "../dtype.ts";
import { convertToFloat32, FloatSource } from "./numbers.ts";

/**
 * Values that are not one run of whole blocks: rows that are padded to whole blocks, blocks that cross the ends of rows
 * and leave the last block partly used, or a scale before everything.
 */
interface UnevenLayout {
  readonly dtype: DType;
  /** Bytes before the first block. */
  readonly headBytes: number;
  readonly rows: number;
  readonly rowElements: number;
  /** Blocks per row; the last one may not be full. */
  readonly rowBlocks: number;
  readonly blockElements: number;
  readonly blockBytes: number;
}

interface Stored {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteLength: number;
}

/** Undefined for tensors whose bytes can be read from the first to the last, which are nearly all. */
export function unevenLayout({ dtype, shape, byteLength }: Stored): UnevenLayout | undefined {
  const elements = shape.reduce((product, dimension) => product * dimension, 1);
  const flat = { dtype, headBytes: 0, rows: 1, rowElements: elements };
  if (dtype === "APR_Q8") return { ...flat, headBytes: 4, rowBlocks: elements, blockElements: 1, blockBytes: 1 };
  if (dtype === "APR_Q4") {
    return { ...flat, rowBlocks: Math.ceil(elements / 32), blockElements: 32, blockBytes: 18 };
  }
  const facts = dtypeFacts(dtype);
  if (facts.layout !== "block" || elements === 0) return undefined;
  const { blockElements, blockBytes } = facts;
  const rowElements = shape.at(-1) ?? 1;
  if (rowElements % blockElements === 0) return undefined;
  const rows = elements / rowElements;
  const rowBlocks = Math.ceil(rowElements / blockElements);
  const block = { blockElements, blockBytes };
  if (rows * rowBlocks * blockBytes === byteLength)
    return { dtype, headBytes: 0, rows, rowElements, rowBlocks, ...block };
  const flatBlocks = Math.ceil(elements / blockElements);
  return flatBlocks * blockBytes === byteLength ? { ...flat, rowBlocks: flatBlocks, ...block } : undefined;
}

type Floats = Float32Array<ArrayBuffer>;

/** The values of an uneven tensor as little-endian float32, decoded when they are read. */
export class UnevenSource extends FloatSource {
  readonly #inner: Source;
  readonly #layout: UnevenLayout;
  #scale: number | undefined;

  constructor(inner: Source, layout: UnevenLayout) {
    super({ label: inner.label, elementCount: layout.rows * layout.rowElements });
    this.#inner = inner;
    this.#layout = layout;
  }

  /** Reads the blocks that hold the elements. */
  protected async values(first: number, last: number, signal: AbortSignal | undefined): Promise<Floats> {
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
      // All blocks of a row that were read are contiguous.
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
