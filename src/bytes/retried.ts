import type { Bytes } from "../base/bytes.ts";
import { isTareError } from "../base/errors.ts";
import { ReadGuard } from "./read-guard.ts";
import { pause, type RetryPolicy, retry, retryPolicy } from "./retry.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";
import { isTooSlow } from "./transfer-watch.ts";

/** A try that got this much further, or this share of the rest, is worth another where it did not take too long. */
const LEAST_PROGRESS_BYTES = 4096;
const LEAST_SHARE = 1 / 16;
/** What does not take longer is not slow. */
const SHORT_MS = 5000;

/** How far one try got, and how long it was waited for. */
class Progress {
  #bytes = 0;
  #waitedMs = 0;
  #since = performance.now();
  readonly #wanted: number;

  constructor(byteLength: number) {
    this.#wanted = byteLength;
  }

  /** Bytes have come; the reader is busy with them until `wait` is called. */
  got(byteLength: number): void {
    this.#bytes += byteLength;
    this.#waitedMs += performance.now() - this.#since;
    this.#since = performance.now();
  }

  wait(): void {
    this.#since = performance.now();
  }

  /** False where a server that gives a few bytes at each try would be asked for ever. */
  isWorthwhile(error: unknown): boolean {
    this.got(0);
    if (isTareError(error) && error.code === "source/http.slow") return false;
    if (this.#waitedMs > SHORT_MS && isTooSlow(this.#bytes, this.#waitedMs)) return false;
    return this.#bytes >= Math.min(LEAST_PROGRESS_BYTES, this.#wanted * LEAST_SHARE);
  }
}

/**
 * Repeats reads that failed with a transient SourceError. A stream that breaks goes on where it stopped, and
 * counts its tries anew whenever it got well further. Closing closes the source below.
 */
export function withRetries(source: Source, options: Partial<RetryPolicy> = {}): Source {
  return new RetriedSource(source, retryPolicy(options));
}

class RetriedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #source: Source;
  readonly #policy: RetryPolicy;
  readonly #guard: ReadGuard;

  constructor(source: Source, policy: RetryPolicy) {
    this.label = source.label;
    this.byteLength = source.byteLength;
    this.#source = source;
    this.#policy = policy;
    this.#guard = new ReadGuard(source.label, source.byteLength);
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.#source.descriptor;
  }

  /** As the source's own: bytes that landed before a failure are not asked for again. */
  get reportsBytes(): boolean {
    return this.#source.reportsBytes === true;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (options.into === undefined || options.onBytes === undefined) {
      return retry(() => this.#attempt(offset, byteLength, options), this.#policy, options.signal);
    }
    return this.#readOn(offset, { ...options, into: options.into });
  }

  /** A read that breaks goes on where it stopped, as a stream does. */
  async #readOn(offset: number, options: ReadOptions & { readonly into: Bytes }): Promise<Bytes> {
    const { into, signal } = options;
    let done = 0;
    let attempt = 0;
    for (;;) {
      const progress = new Progress(into.byteLength - done);
      const onBytes = (byteLength: number): void => {
        done += byteLength;
        progress.got(byteLength);
        options.onBytes?.(byteLength);
      };
      const rest = into.subarray(done);
      try {
        await this.#attempt(offset + done, rest.byteLength, { into: rest, signal, onBytes });
        return into;
      } catch (error) {
        if (progress.isWorthwhile(error)) attempt = 0;
        await pause(error, attempt, { policy: this.#policy, signal });
        attempt++;
      }
    }
  }

  #attempt(offset: number, byteLength: number, options: ReadOptions): Promise<Bytes> {
    this.#guard.checkOpen();
    return this.#source.read(offset, byteLength, options);
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const end = offset + this.#guard.checkStream(offset, options);
    const { signal } = options;
    let position = offset;
    let attempt = 0;
    while (position < end) {
      const progress = new Progress(end - position);
      try {
        this.#guard.checkOpen();
        for await (const piece of this.#source.stream(position, { ...options, byteLength: end - position })) {
          position += piece.byteLength;
          progress.got(piece.byteLength);
          yield piece;
          progress.wait();
        }
        return;
      } catch (error) {
        if (progress.isWorthwhile(error)) attempt = 0;
        await pause(error, attempt, { policy: this.#policy, signal });
        attempt++;
      }
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    return this.#source.close();
  }
}
