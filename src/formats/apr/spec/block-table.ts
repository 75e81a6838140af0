import type { BlockPlace } from "./block-source.ts";

/** Where the blocks of a tensor begin, as far as anybody has gone over them: 16 bytes a block. */
export class BlockTable {
  readonly #stored: number[] = [0];
  readonly #raw: number[] = [0];

  /** The last known block that begins at or before a byte of the tensor. */
  find(rawOffset: number): BlockPlace {
    let low = 0;
    let high = this.#raw.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#raw[middle] as number) <= rawOffset) low = middle;
      else high = middle - 1;
    }
    return { index: low, stored: this.#stored[low] as number, raw: this.#raw[low] as number };
  }

  /** Where the block with the byte before `rawEnd` ends in the stored bytes; undefined where nobody knows yet. */
  endOf(rawEnd: number): number | undefined {
    const { index } = this.find(rawEnd - 1);
    return this.#stored[index + 1];
  }

  /** Takes the next place; others are known already. */
  add({ index, stored, raw }: BlockPlace): void {
    if (index !== this.#stored.length) return;
    this.#stored.push(stored);
    this.#raw.push(raw);
  }
}
