import { type Bytes, readMemory } from "../../../base/bytes.ts";

/**
 * Bytes read and sent at a time. Over loopback 64 KiB cost a third more processor time a byte than 512 KiB, and more
 * than that gained nothing.
 */
export const PIECE_BYTES = 512 << 10;
/** Buffers kept for the next transfer. */
const KEPT = 32;

/** Buffers of one length that transfers share, so that memory follows the number of transfers, not of requests. */
export class PieceBuffers {
  readonly #free: Bytes[] = [];
  readonly #spareLimit: number;
  #taken = 0;

  /** `spareLimit`: buffers in use from which on nobody gets a second one. */
  constructor(spareLimit: number) {
    this.#spareLimit = spareLimit;
  }

  get taken(): number {
    return this.#taken;
  }

  take(): Bytes {
    this.#taken++;
    return this.#free.pop() ?? readMemory(PIECE_BYTES);
  }

  /** A second buffer for reading ahead; undefined while many transfers are under way. */
  takeSpare(): Bytes | undefined {
    return this.#taken < this.#spareLimit ? this.take() : undefined;
  }

  give(buffer: Bytes): void {
    this.#taken--;
    if (this.#free.length < KEPT) this.#free.push(buffer);
  }
}
