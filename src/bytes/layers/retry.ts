import type { Bytes } from "../../base/bytes.ts";
import { isTareError, SourceError } from "../../base/errors.ts";
import { isTooSlow } from "../http/exchange.ts";
import type { ReadOptions, Source, StreamOptions } from "../source.ts";
import {
  DelegatingSource,
  FILL,
  type FillingSource,
  type FillOptions,
  fillFrom,
  isFilling,
  ReadGuard,
} from "./base.ts";

/** A try that got this many bytes, or this share of the rest, is worth another one if it did not take too long. */
const LEAST_PROGRESS_BYTES = 4096;
const LEAST_SHARE = 1 / 16;
/** A shorter try does not count as slow. */
const SHORT_MS = 5000;

/** How far one try got, and how long the reader waited for it. */
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

  /** False if the try got too little: a server that gives a few bytes at each try would be asked for ever. */
  isWorthwhile(error: unknown): boolean {
    this.got(0);
    if (isTareError(error) && error.code === "source/http.slow") return false;
    if (this.#waitedMs > SHORT_MS && isTooSlow(this.#bytes, this.#waitedMs)) return false;
    return this.#bytes >= Math.min(LEAST_PROGRESS_BYTES, this.#wanted * LEAST_SHARE);
  }
}

/**
 * Repeats reads that failed with a transient SourceError. A stream that breaks continues where it stopped, and counts
 * its tries from zero again after good progress. Closing closes the source below.
 */
export function withRetries(source: Source, options: Partial<RetryPolicy> = {}): Source {
  const policy = retryPolicy(options);
  return isFilling(source) ? new ResumedSource(source, policy) : new RetriedSource(source, policy);
}

class RetriedSource extends DelegatingSource {
  protected readonly policy: RetryPolicy;
  protected readonly guard: ReadGuard;

  constructor(source: Source, policy: RetryPolicy) {
    super(source);
    this.policy = policy;
    this.guard = new ReadGuard(source.label, source.byteLength);
  }

  override async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.guard.checkRead(offset, byteLength, options);
    const read = (): Promise<Bytes> => {
      this.guard.checkOpen();
      return this.inner.read(offset, byteLength, options);
    };
    return retry(read, this.policy, options.signal);
  }

  override async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const end = offset + this.guard.checkStream(offset, options);
    const { signal } = options;
    let position = offset;
    let attempt = 0;
    while (position < end) {
      const progress = new Progress(end - position);
      try {
        this.guard.checkOpen();
        for await (const piece of this.inner.stream(position, { ...options, byteLength: end - position })) {
          position += piece.byteLength;
          progress.got(piece.byteLength);
          yield piece;
          progress.wait();
        }
        return;
      } catch (error) {
        if (progress.isWorthwhile(error)) attempt = 0;
        await pause(error, attempt, { policy: this.policy, signal });
        attempt++;
      }
    }
  }

  override close(): Promise<void> {
    this.guard.close();
    return super.close();
  }
}

/** The same above a layer that reports how far a read got. */
class ResumedSource extends RetriedSource implements FillingSource {
  /** A read that breaks continues where it stopped, as a stream does. */
  async [FILL](offset: number, target: Bytes, { signal, onBytes }: FillOptions): Promise<void> {
    this.guard.checkRead(offset, target.byteLength, { signal });
    let done = 0;
    let attempt = 0;
    for (;;) {
      const progress = new Progress(target.byteLength - done);
      const count = (byteLength: number): void => {
        done += byteLength;
        progress.got(byteLength);
        onBytes(byteLength);
      };
      try {
        this.guard.checkOpen();
        return await fillFrom(this.inner, offset + done, target.subarray(done), { signal, onBytes: count });
      } catch (error) {
        if (progress.isWorthwhile(error)) attempt = 0;
        await pause(error, attempt, { policy: this.policy, signal });
        attempt++;
      }
    }
  }
}

/** When and how often to repeat an operation that failed temporarily. */
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

/**
 * Five retries, with waits of 15.5 s together at most: long enough for a restart, short enough for a person. A server
 * that names its own waits (`Retry-After`) can stretch them to 30 s each.
 */
const DEFAULT_POLICY: RetryPolicy = {
  retries: 5,
  baseDelayMs: 500,
  maxDelayMs: 30_000,
  random: Math.random,
  sleep,
};

/** The defaults, with the caller's own choices in their place. */
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

/** Waits before try `attempt` + 1, or throws `error` if there will be none. */
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

/** A wait that an abort ends, with its reason, and with it the timer, which would keep the process alive. */
export function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
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
