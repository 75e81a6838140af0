/** How long the bucket may save up: after a pause nobody gets more than this much at once. */
const BURST_SECONDS = 0.25;

/** Most bytes a second over all connections together. */
export class TokenBucket {
  readonly bytesPerSecond: number;
  readonly #now: () => number;
  readonly #sleep: (milliseconds: number) => Promise<void>;
  /** When everything that was handed out is paid for, in milliseconds. */
  #paidAt = Number.NEGATIVE_INFINITY;

  constructor(
    bytesPerSecond: number,
    clock: { readonly now?: () => number; readonly sleep?: (milliseconds: number) => Promise<void> } = {},
  ) {
    this.bytesPerSecond = bytesPerSecond;
    this.#now = clock.now ?? (() => performance.now());
    this.#sleep = clock.sleep ?? ((milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)));
  }

  /** Resolves when so many more bytes may have passed. */
  async take(byteLength: number): Promise<void> {
    const now = this.#now();
    const start = Math.max(this.#paidAt, now - BURST_SECONDS * 1000);
    this.#paidAt = start + (byteLength / this.bytesPerSecond) * 1000;
    const wait = this.#paidAt - now;
    // A timer shorter than this costs more than it holds back; the debt is kept.
    if (wait > 5) await this.#sleep(wait);
  }
}
