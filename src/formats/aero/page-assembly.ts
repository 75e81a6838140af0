import type { Bytes } from "../../base/bytes.ts";
import { allocateFor } from "../../bytes/layers/base.ts";

/** Makes runs of whole pages of pieces that come in any length. */
export class PageAssembly {
  readonly #pageBytes: number;
  readonly #label: string;
  /** A page that came in several pieces. */
  #page: Bytes | undefined;
  #filled = 0;

  constructor(pageBytes: number, label: string) {
    this.#pageBytes = pageBytes;
    this.#label = label;
  }

  /** The whole pages that are complete now; `left` bytes were to come when the last run ended, the last page may be short. */
  *add(piece: Bytes, left: number): Generator<Bytes> {
    let rest = left;
    for (let taken = 0; taken < piece.byteLength; ) {
      const wanted = Math.min(this.#pageBytes, rest);
      const available = piece.byteLength - taken;
      // Whole pages need no copy.
      if (this.#filled === 0 && available >= wanted) {
        const byteLength = available >= rest ? rest : available - (available % this.#pageBytes);
        yield piece.subarray(taken, taken + byteLength);
        taken += byteLength;
        rest -= byteLength;
        continue;
      }
      this.#page ??= allocateFor(wanted, this.#label);
      const part = piece.subarray(taken, taken + wanted - this.#filled);
      this.#page.set(part, this.#filled);
      this.#filled += part.byteLength;
      taken += part.byteLength;
      if (this.#filled < wanted) continue;
      yield this.#page.subarray(0, wanted);
      this.#filled = 0;
      rest -= wanted;
    }
  }
}
