import type { Bytes } from "../../base/bytes.ts";
import { isTareError, SourceError } from "../../base/errors.ts";
import { isTooSlow } from "../http/exchange.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "../source.ts";
import { ReadGuard } from "./base.ts";

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

/** When and how often something that failed for the moment is tried again. */
export interface RetryPolicy {
  /** Tries after the first one. */
  readonly retries: number;
  /** Upper bound of the first wait; it doubles with every try. */
  readonly baseDelayMs: number;
  /** No wait is longer, whatever a server asks for. */
  readonly maxDelayMs: number;
  /** 0 … 1, for the jitter. */
  readonly random: () => number;
  /** Resolves after the time, or rejects with the signal's reason. */
  readonly sleep: (milliseconds: number, signal: AbortSignal | undefined) => Promise<void>;
}

/** Five retries within about a minute at most: long enough for a restart, short enough for a person. */
const DEFAULT_POLICY: RetryPolicy = {
  retries: 5,
  baseDelayMs: 500,
  maxDelayMs: 30_000,
  random: Math.random,
  sleep,
};

/** The defaults with what the caller wants otherwise. */
export function retryPolicy(options: Partial<RetryPolicy> = {}): RetryPolicy {
  return { ...DEFAULT_POLICY, ...options };
}

/**
 * Runs `operation` until it succeeds, fails for good, or the policy is used up. Only SourceErrors that call
 * themselves transient are retried. The waits use full jitter: readers that failed together do not return together.
 */
export async function retry<T>(
  operation: () => Promise<T>,
  policy: RetryPolicy,
  signal?: AbortSignal | undefined,
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await operation();
    } catch (error) {
      await pause(error, attempt, { policy, signal });
    }
  }
}

/** Waits before try `attempt` + 1, or throws `error` where there is to be none. */
async function pause(
  error: unknown,
  attempt: number,
  { policy, signal }: { readonly policy: RetryPolicy; readonly signal?: AbortSignal | undefined },
): Promise<void> {
  signal?.throwIfAborted();
  if (!(error instanceof SourceError && error.transient) || attempt >= policy.retries) throw error;
  await policy.sleep(delayFor(error, attempt, policy), signal);
}

function delayFor(error: SourceError, attempt: number, policy: RetryPolicy): number {
  if (error.retryAfter !== undefined) return Math.min(error.retryAfter * 1000, policy.maxDelayMs);
  return policy.random() * Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** attempt);
}

function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
