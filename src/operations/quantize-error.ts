import type { Bytes } from "../base/bytes.ts";
import { QUANT_BYTES, QUANT_ELEMENTS, type Quantizer, type QuantType } from "../primitives/quant/quantizer.ts";

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
export class ErrorMeter {
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
