import type { Bytes } from "../../base/bytes.ts";
import { LinkedAbort } from "../abort.ts";
import type { Source } from "../source.ts";

/** The longest range of one request. Some servers and caches refuse longer ones, or cut them off. */
export const SPLIT_BYTES = 64 << 20;

/** This many transfers at a time keep a line busy: more of them only share it. */
export const FULL_LINE = 8;

interface SplitRead {
  readonly offset: number;
  /** Filled from `offset` on. */
  readonly target: Bytes;
  /** Bytes of one read of the source. */
  readonly pieceBytes: number;
  /** How many of them run at a time. */
  readonly limiter: Limiter;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Does one long read as several shorter ones, begun in the order of their offsets. The first failure ends the others.
 * It settles only when none of them writes to `target` any more.
 */
export async function readSplit(source: Source, read: SplitRead): Promise<void> {
  const { offset, target, pieceBytes, limiter, signal } = read;
  const abort = new LinkedAbort(signal);
  const parts: Promise<unknown>[] = [];
  const readPart = async (start: number): Promise<void> => {
    const into = target.subarray(start, start + pieceBytes);
    try {
      await abort.run((inner) => source.read(offset + start, into.byteLength, { into, signal: inner }));
    } catch (error) {
      abort.abort(error);
      throw error;
    }
  };
  for (let start = 0; start < target.byteLength; start += pieceBytes) {
    parts.push(limiter.run(() => readPart(start)));
  }
  const results = await Promise.allSettled(parts);
  abort.release();
  signal?.throwIfAborted();
  // The reason of the abort is the first failure; the errors of the others only follow from it.
  if (results.some(({ status }) => status === "rejected")) throw abort.ended?.reason;
}

/** Runs at most a given number of jobs at a time; the others wait in the order in which they came. */
export class Limiter {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(concurrency: number) {
    this.#free = concurrency;
  }

  async run<T>(job: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await job();
    } finally {
      const next = this.#waiting.shift();
      // The place is handed on, not freed: a newcomer must not slip in between.
      if (next === undefined) this.#free++;
      else next();
    }
  }
}
