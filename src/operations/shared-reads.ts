interface SharedRead<T> {
  readonly abort: AbortController;
  readonly result: Promise<T>;
  waiting: number;
}

/** Reads that several callers may ask for at the same time: each is done once, and ends when nobody waits for it. */
export class SharedReads<T> {
  readonly #reads = new Map<string, SharedRead<T>>();

  /** What `read` gives, or what the same read under way for somebody else gives; the caller's signal ends only its own wait. */
  run(key: string, signal: AbortSignal | undefined, read: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    const shared = this.#reads.get(key) ?? this.#start(key, read);
    shared.waiting++;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        if (--shared.waiting === 0) this.#end(key, shared, signal?.reason);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", leave, { once: true });
      shared.result.then(resolve, reject).finally(() => signal?.removeEventListener("abort", leave));
    });
  }

  #start(key: string, read: (signal: AbortSignal) => Promise<T>): SharedRead<T> {
    const abort = new AbortController();
    const shared: SharedRead<T> = { abort, result: read(abort.signal), waiting: 0 };
    this.#reads.set(key, shared);
    const forget = (): void => this.#forget(key, shared);
    shared.result.then(forget, forget);
    return shared;
  }

  #end(key: string, shared: SharedRead<T>, reason: unknown): void {
    this.#forget(key, shared);
    shared.abort.abort(reason);
  }

  #forget(key: string, shared: SharedRead<T>): void {
    if (this.#reads.get(key) === shared) this.#reads.delete(key);
  }
}
