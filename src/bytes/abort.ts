import { isTareError, SourceError } from "../base/errors.ts";

/**
 * An abort of our own that also follows the caller's signal, until it is released. For many requests at a time, `run`
 * gives each its own signal: Node warns of a leak if one signal has many listeners.
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

  /** The reason of the first abort; undefined if there was none. */
  get ended(): { readonly reason: unknown } | undefined {
    return this.#ended;
  }

  /**
   * One signal for all requests, for callers that make few at a time: making a controller takes longer than a request.
   */
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

/**
 * The promise's outcome, or the signal's reason if that comes first. The work itself continues for other callers; `late`
 * gets what comes after an abort.
 */
export function untilAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  late: (result: T) => unknown = () => undefined,
): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      reject(signal.reason);
      promise.then(late).catch(() => undefined);
    };
    if (signal.aborted) {
      stop();
      return;
    }
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

/** The outcome of the work. What fails after an abort fails because of it, whatever its error says. */
export async function withReason<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw signal?.aborted === true ? signal.reason : error;
  }
}

/** The pieces until the signal is aborted. Without this, waiting for a pipe that has nothing to say ignores an abort. */
export async function* piecesUntilAborted<T>(
  pieces: AsyncIterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T> {
  const iterator = pieces[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await untilAborted(Promise.resolve(iterator.next()), signal);
      // Ctrl-C in a pipeline ends the writer too: what it wrote until then is not all of it.
      signal?.throwIfAborted();
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    // It would wait for the piece that was asked for, which may never come.
    iterator.return?.()?.catch(() => undefined);
  }
}

/** How long cleaning up waits for an object of the program's own: longer than any that works needs. */
const GRACE_MS = 250;

/** Waits for the end of a program's own cleaning up, but not for ever. What it fails with is not the error to report. */
export function untilGrace(work: () => unknown): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, GRACE_MS);
    const end = (): void => {
      clearTimeout(timer);
      resolve();
    };
    Promise.resolve().then(work).then(end, end);
  });
}

/**
 * What a program's own object or function does for a call. An abort is answered at once; `late` gets what comes after
 * it. Errors that are not ours become one of ours, with what was thrown as its cause.
 */
export async function ofCaller<T>(
  label: string,
  signal: AbortSignal | undefined,
  work: () => T | PromiseLike<T>,
  late?: (result: T) => void,
): Promise<T> {
  signal?.throwIfAborted();
  try {
    return await untilAborted(Promise.resolve().then(work), signal, late);
  } catch (error) {
    signal?.throwIfAborted();
    if (isTareError(error)) throw error;
    const why = error instanceof Error ? `: ${error.message}` : "";
    const message = `Cannot use "${label}"${why}`;
    throw new SourceError("source/caller", message, { source: label }, { cause: error });
  }
}
