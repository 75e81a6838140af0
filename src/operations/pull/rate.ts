import { LinkedAbort } from "../../bytes/abort.ts";
import { sleep } from "../../bytes/layers/retry.ts";
import { alteredSink, type Output, withSinks } from "../../bytes/sink.ts";

/** How long the bucket may save up: after a pause a taker gets at most this much at once. */
const BURST_SECONDS = 0.25;
/** A timer holds 31 bits. A longer wait is as good as none that ends. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;

/** Limits the bytes per second over all connections together. */
export class TokenBucket {
  readonly bytesPerSecond: number;
  readonly #now: () => number;
  readonly #sleep: Sleep;
  /** The time, in milliseconds, at which all bytes so far fit the rate. */
  #paidAt = Number.NEGATIVE_INFINITY;

  constructor(bytesPerSecond: number, clock: { readonly now?: () => number; readonly sleep?: Sleep } = {}) {
    this.bytesPerSecond = bytesPerSecond;
    this.#now = clock.now ?? (() => performance.now());
    this.#sleep = clock.sleep ?? sleep;
  }

  /** Resolves when this many more bytes may pass; rejects with the reason of an abort. At a low rate that is minutes. */
  async take(byteLength: number, signal?: AbortSignal | undefined): Promise<void> {
    const now = this.#now();
    const start = Math.max(this.#paidAt, now - BURST_SECONDS * 1000);
    this.#paidAt = start + (byteLength / this.bytesPerSecond) * 1000;
    const wait = this.#paidAt - now;
    // A shorter timer costs more than it delays. The debt is kept.
    if (wait > 5) await this.#sleep(Math.min(wait, LONGEST_WAIT_MS), signal);
  }
}

type Sleep = (milliseconds: number, signal: AbortSignal | undefined) => Promise<void>;

/** An output whose sinks take no more than a rate: slowing down the writes slows down the reads. */
export function slowOutput(output: Output, bucket: TokenBucket, signal: AbortSignal | undefined): Output {
  return withSinks(output, async (name) => {
    const sink = await output.create(name);
    return alteredSink(sink, {
      async append(bytes) {
        const waiting = new LinkedAbort(signal);
        try {
          // Both at once: a write that fails ends the wait, which may be one of hours.
          await Promise.all([sink.append(bytes), bucket.take(bytes.byteLength, waiting.signal)]);
        } catch (error) {
          waiting.abort(error);
          throw error;
        } finally {
          waiting.release();
        }
      },
    });
  });
}
