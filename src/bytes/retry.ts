import { SourceError } from "../base/errors.ts";

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
export async function pause(
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
