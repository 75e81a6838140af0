/** Numbers that look random and come out the same for the same seed, everywhere. */
export class Random {
  #state: number;

  /** `stream` tells apart the many sequences of one seed: the number of an input, say. */
  constructor(seed: number, stream = 0) {
    this.#state = (Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(stream + 1, 0xc2b2ae35)) >>> 0;
  }

  /** An integer in 0 … 2^32-1 (mulberry32: one add and two multiplications; quality is ample for picking mutations). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  /** An integer in 0 … bound-1; 0 where the bound is 0. */
  below(bound: number): number {
    return bound <= 0 ? 0 : this.next() % bound;
  }

  /** True once in `times`. */
  oneIn(times: number): boolean {
    return this.below(times) === 0;
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new Error("Cannot pick from nothing");
    return items[this.below(items.length)] as T;
  }
}
