import type { Bytes } from "../base/bytes.ts";
import type { Source } from "../bytes/source.ts";
import { decodeAprQ4, decodeAprQ8 } from "../primitives/quant/blocks.ts";
import { FloatSource } from "./float-source.ts";
import type { UnevenLayout } from "./uneven-layout.ts";
import { convertToFloat32 } from "./values.ts";

type Floats = Float32Array<ArrayBuffer>;

/** The values of an uneven tensor as little-endian float32, decoded as they are read. */
export class UnevenSource extends FloatSource {
  readonly #inner: Source;
  readonly #layout: UnevenLayout;
  #scale: number | undefined;

  constructor(inner: Source, layout: UnevenLayout) {
    super({ label: inner.label, elementCount: layout.rows * layout.rowElements });
    this.#inner = inner;
    this.#layout = layout;
  }

  /** From the blocks that hold them. */
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
