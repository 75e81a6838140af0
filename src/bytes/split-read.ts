import type { Bytes } from "../base/bytes.ts";
import type { Limiter } from "./limiter.ts";
import { LinkedAbort } from "./linked-abort.ts";
import type { Source } from "./source.ts";

export interface SplitRead {
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
 * One long read as several shorter ones. Begins them in the order of their offsets; the first failure ends the others,
 * and it settles only when none of them writes to `target` any more.
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
  // The reason of the abort is the first failure; what the others made of it is noise.
  if (results.some(({ status }) => status === "rejected")) throw abort.ended?.reason;
}
