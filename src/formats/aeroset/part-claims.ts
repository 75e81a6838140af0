import type { Tensor } from "../../model/tensor.ts";

/** Which bytes of a part its own index gives to tensors. */
export class Claims {
  readonly #sorted: readonly Tensor[];
  /** For each tensor in order, the one among it and those before that reaches furthest: tensors may share bytes. */
  readonly #furthest: readonly Tensor[];

  constructor(tensors: readonly Tensor[]) {
    this.#sorted = tensors.filter(({ storedByteLength }) => storedByteLength > 0).sort((a, b) => a.offset - b.offset);
    let furthest: Tensor | undefined;
    this.#furthest = this.#sorted.map((tensor) => {
      if (furthest === undefined || endOf(tensor) > endOf(furthest)) furthest = tensor;
      return furthest;
    });
  }

  /** A tensor with bytes in the run, or undefined. Nothing has bytes in an empty run. */
  within(offset: number, byteLength: number): Tensor | undefined {
    if (byteLength === 0) return undefined;
    const end = offset + byteLength;
    let low = 0;
    let high = this.#sorted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#sorted[middle] as Tensor).offset < end) low = middle + 1;
      else high = middle;
    }
    const last = this.#furthest[low - 1];
    return last !== undefined && endOf(last) > offset ? last : undefined;
  }
}

function endOf({ offset, storedByteLength }: Tensor): number {
  return offset + storedByteLength;
}
