import { printable } from "../../../base/text.ts";
import type { Tensor } from "../../../model/tensor.ts";

/** Most names that a message lists. */
const MAX_NAMES = 3;

const maps = new WeakMap<readonly Tensor[], TensorMap>();

/** Names of the tensors with bytes in a run of the file, for messages about damage: `tensors "a", "b"`. */
export function namesIn(tensors: readonly Tensor[], offset: number, byteLength: number): string {
  const map = maps.get(tensors) ?? new TensorMap(tensors);
  maps.set(tensors, map);
  return map.describe(offset, byteLength);
}

/** Finds the tensors with bytes in a run without walking over all of them each time. */
class TensorMap {
  /** By offset, without empty ones. */
  readonly #sorted: readonly Tensor[];
  /** The furthest end of the tensors up to each: with shared ranges an earlier tensor may end later. */
  readonly #reach: readonly number[];

  constructor(tensors: readonly Tensor[]) {
    this.#sorted = tensors.filter((tensor) => tensor.storedByteLength > 0).sort((a, b) => a.offset - b.offset);
    let furthest = 0;
    this.#reach = this.#sorted.map((tensor) => {
      furthest = Math.max(furthest, tensor.offset + tensor.storedByteLength);
      return furthest;
    });
  }

  /** Tensors with a byte in a run of the file, by offset. */
  find(offset: number, byteLength: number): Tensor[] {
    const found: Tensor[] = [];
    for (let i = this.#countBefore(offset + byteLength) - 1; i >= 0 && (this.#reach[i] ?? 0) > offset; i--) {
      const tensor = this.#sorted[i] as Tensor;
      if (tensor.offset + tensor.storedByteLength > offset) found.push(tensor);
    }
    return found.reverse();
  }

  /** The same as text: `tensors "a", "b"`. */
  describe(offset: number, byteLength: number): string {
    const names = this.find(offset, byteLength).map((tensor) => `"${printable(tensor.name)}"`);
    if (names.length === 0) return "no tensor";
    const shown = names.slice(0, MAX_NAMES).join(", ");
    const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "";
    return `${names.length === 1 ? "tensor" : "tensors"} ${shown}${more}`;
  }

  /** How many tensors begin before `end`. */
  #countBefore(end: number): number {
    let low = 0;
    let high = this.#sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#sorted[middle] as Tensor).offset < end) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
