import type { Bytes } from "../base/bytes.ts";
import { type Batch, type BatchOptions, type Extent, planBatches } from "./extents.ts";
import { Limiter } from "./limiter.ts";
import { allocateFor, ReadGuard } from "./read-guard.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";

export interface CoalescingOptions extends Partial<BatchOptions> {
  /** Reads of the source below that may run at a time. */
  readonly concurrency?: number;
}

/** 64 KiB take about as long to transfer as a request takes to be answered on a good line. */
const MAX_GAP = 64 << 10;
/** Longer ranges are refused or cut off by some servers and caches. */
const MAX_BYTES = 64 << 20;
const CONCURRENCY = 4;

/**
 * Merges reads that are issued in the same turn of the event loop and lie close together, and splits reads
 * that are too long for one request. For sources where a round trip costs more than a few bytes: HTTP.
 * Streams pass through. Closing closes the source below.
 */
export function withCoalescing(source: Source, options: CoalescingOptions = {}): Source {
  return new CoalescedSource(source, options);
}

/** One read as it was asked for, waiting for its batch. */
interface Waiting extends Extent {
  readonly target: Bytes;
  readonly signal: AbortSignal | undefined;
  /** Set once the caller has its answer: from then on `target` belongs to it again. */
  settled: boolean;
  resolve(): void;
  reject(reason: unknown): void;
}

class CoalescedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #source: Source;
  readonly #batching: BatchOptions;
  readonly #limiter: Limiter;
  readonly #guard: ReadGuard;
  #waiting: Waiting[] = [];

  constructor(source: Source, options: CoalescingOptions) {
    this.label = source.label;
    this.byteLength = source.byteLength;
    this.#source = source;
    this.#batching = { maxGap: options.maxGap ?? MAX_GAP, maxBytes: options.maxBytes ?? MAX_BYTES };
    this.#limiter = new Limiter(options.concurrency ?? CONCURRENCY);
    this.#guard = new ReadGuard(source.label, source.byteLength);
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.#source.descriptor;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const target = options.into ?? allocateFor(byteLength, this.label);
    if (byteLength === 0) return target;
    if (byteLength > this.#batching.maxBytes) await this.#readLong(target, offset, options.signal);
    else await this.#enqueue({ offset, byteLength, target, signal: options.signal });
    return target;
  }

  stream(offset: number, options: StreamOptions = {}): AsyncIterable<Bytes> {
    return this.#stream(offset, options);
  }

  close(): Promise<void> {
    this.#guard.close();
    return this.#source.close();
  }

  async *#stream(offset: number, options: StreamOptions): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    yield* this.#source.stream(offset, { ...options, byteLength });
  }

  /** Several requests, a few at a time; settles only when none of them writes to `target` any more. */
  async #readLong(target: Bytes, offset: number, signal: AbortSignal | undefined): Promise<void> {
    const stop = new AbortController();
    const parts: Promise<unknown>[] = [];
    const combined = signal === undefined ? stop.signal : anySignal([signal, stop.signal]);
    for (let start = 0; start < target.byteLength; start += this.#batching.maxBytes) {
      const into = target.subarray(start, start + this.#batching.maxBytes);
      const part = this.#limiter.run(() =>
        this.#source.read(offset + start, into.byteLength, { into, signal: combined }),
      );
      parts.push(
        part.catch((error: unknown) => {
          stop.abort(error);
          throw error;
        }),
      );
    }
    const results = await Promise.allSettled(parts);
    signal?.throwIfAborted();
    if (stop.signal.aborted) throw stop.signal.reason;
    for (const result of results) if (result.status === "rejected") throw result.reason;
  }

  #enqueue(wanted: Extent & Pick<Waiting, "target" | "signal">): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        ...wanted,
        settled: false,
        resolve: () => settle(resolve),
        reject: (reason) => settle(() => reject(reason)),
      };
      const onAbort = (): void => waiting.reject(wanted.signal?.reason);
      const settle = (action: () => void): void => {
        waiting.settled = true;
        wanted.signal?.removeEventListener("abort", onAbort);
        action();
      };
      wanted.signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiting.push(waiting);
      if (this.#waiting.length === 1) queueMicrotask(() => this.#dispatch());
    });
  }

  #dispatch(): void {
    const sorted = this.#waiting.sort((a, b) => a.offset - b.offset);
    this.#waiting = [];
    for (const batch of planBatches(sorted, this.#batching)) {
      void this.#limiter.run(() => this.#serve(batch));
    }
  }

  async #serve(batch: Batch<Waiting>): Promise<void> {
    const members = batch.members.filter((member) => !member.settled);
    const signal = signalOfAll(members);
    try {
      if (members.length === 0) return;
      const [only] = members;
      if (members.length === 1 && only !== undefined) await this.#readAlone(only, signal);
      else await this.#scatter(batch, members, signal);
      for (const member of members) if (!member.settled) member.resolve();
    } catch (error) {
      for (const member of members) if (!member.settled) member.reject(error);
    }
  }

  async #readAlone(member: Waiting, signal: AbortSignal | undefined): Promise<void> {
    await this.#source.read(member.offset, member.byteLength, { into: member.target, signal });
  }

  /** One stream over the whole batch: every piece is copied straight to where it is wanted. */
  async #scatter(batch: Extent, members: readonly Waiting[], signal: AbortSignal | undefined): Promise<void> {
    let position = batch.offset;
    let first = 0;
    for await (const piece of this.#source.stream(batch.offset, { byteLength: batch.byteLength, signal })) {
      const end = position + piece.byteLength;
      for (let i = first; i < members.length; i++) {
        const member = members[i] as Waiting;
        if (member.offset >= end) break;
        if (!member.settled) copyShared(piece, position, member);
        // Members are sorted by offset: those that are complete at the front need no further look.
        if (i === first && member.offset + member.byteLength <= end) first++;
      }
      position = end;
    }
  }
}

function copyShared(piece: Bytes, position: number, { offset, target }: Waiting): void {
  const from = Math.max(position, offset);
  const to = Math.min(position + piece.byteLength, offset + target.byteLength);
  if (from < to) target.set(piece.subarray(from - position, to - position), from - offset);
}

/** Aborts when every member has given up; undefined where some member never will. */
function signalOfAll(members: readonly Waiting[]): AbortSignal | undefined {
  if (members.some((member) => member.signal === undefined)) return undefined;
  const controller = new AbortController();
  let left = members.length;
  for (const { signal } of members) {
    const leave = (): void => {
      left--;
      if (left === 0) controller.abort(signal?.reason);
    };
    if (signal?.aborted) leave();
    else signal?.addEventListener("abort", leave, { once: true, signal: controller.signal });
  }
  return controller.signal;
}

/** AbortSignal.any, which Safari has only since 17.4. */
function anySignal(signals: readonly AbortSignal[]): AbortSignal {
  const controller = new AbortController();
  for (const signal of signals) {
    const stop = (): void => controller.abort(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true, signal: controller.signal });
  }
  return controller.signal;
}
