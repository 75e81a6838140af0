/**
 * An abort of our own that also follows the caller's signal, until it is released. Where there may be many requests at a
 * time, each gets a signal of its own from it: one signal with the listeners of many looks like a leak to Node, which
 * says so.
 */
export class LinkedAbort {
  readonly #outer: AbortSignal | undefined;
  readonly #children = new Set<AbortController>();
  readonly #follow = (): void => this.abort(this.#outer?.reason);
  #own: AbortController | undefined;
  #ended: { readonly reason: unknown } | undefined;

  constructor(outer: AbortSignal | undefined) {
    this.#outer = outer;
    if (outer?.aborted === true) this.#follow();
    else outer?.addEventListener("abort", this.#follow, { once: true });
  }

  /** What it was aborted with first; undefined where it was not. */
  get ended(): { readonly reason: unknown } | undefined {
    return this.#ended;
  }

  /** One for all requests of somebody who makes few at a time: a controller takes longer to make than a request. */
  get signal(): AbortSignal {
    if (this.#own === undefined) {
      this.#own = new AbortController();
      if (this.#ended !== undefined) this.#own.abort(this.#ended.reason);
    }
    return this.#own.signal;
  }

  /** Runs a job with a signal that aborts with this one. */
  async run<T>(job: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const child = new AbortController();
    if (this.#ended !== undefined) child.abort(this.#ended.reason);
    this.#children.add(child);
    try {
      return await job(child.signal);
    } finally {
      this.#children.delete(child);
    }
  }

  /** The first reason counts. */
  abort(reason: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = { reason };
    for (const child of this.#children) child.abort(reason);
    this.#own?.abort(reason);
  }

  /** Stops following: signals that outlive many reads must not collect listeners. */
  release(): void {
    this.#outer?.removeEventListener("abort", this.#follow);
  }
}

/** The promise's outcome, or the signal's reason where that comes first; what was started goes on for others. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
