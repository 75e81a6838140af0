import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import type { Extent } from "../../bytes/extents.ts";
import { runOf } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { Model } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";

export interface StreamTensorsOptions {
  /** The tensors of the model to read; all if absent. */
  readonly tensors?: readonly Tensor[] | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * "files" if absent: one file after the other. "any": several files at a time, so pieces of different tensors
   * alternate; those of one tensor still come in order. This is faster for a model of many parts in object storage.
   */
  readonly order?: "files" | "any" | undefined;
}

/** Some bytes of a tensor. */
export interface TensorPiece {
  readonly tensor: Tensor;
  /** Offset of the bytes in the tensor. */
  readonly offset: number;
  /** Valid until the next piece is requested. */
  readonly bytes: Bytes;
}

/** Most unwanted bytes that are read along to avoid another stream: less than starting one costs. */
const MAX_GAP = 1 << 20;

/** Four files keep a store and a line busy, and leave each a useful share of the buffers. */
const FILES_AT_ONCE = 4;

/**
 * Every tensor's bytes in one pass in the order of the files, checked like any read, in bounded memory. This is the way
 * to read a whole model, above all a remote one: each byte is fetched and each page is hashed once, although tensors do
 * not begin at pages. An empty tensor gives one empty piece.
 */
export function streamTensors(model: Model, options: StreamTensorsOptions = {}): AsyncGenerator<TensorPiece> {
  return interleave(planStreams(model, options), options.order === "any" ? FILES_AT_ONCE : 1);
}

/** Does nothing before the first stream is requested. */
function* planStreams(model: Model, options: StreamTensorsOptions): Generator<() => AsyncIterable<TensorPiece>> {
  const wanted = options.tensors?.map(({ name }) => model.tensor(name)) ?? model.tensors;
  const order = options.order ?? "files";
  const streams = model.openPart === undefined ? planRuns(wanted).map((run) => [run]) : lazyRuns(model, wanted, order);
  for (const runs of streams) yield () => streamRuns(runs, options.signal);
}

/**
 * If parts are opened lazily, only open ones know the places of their tensors. Each part is opened a little before its
 * turn, so that there is no wait for it. If several are read at a time, the others continue meanwhile.
 */
function lazyRuns(model: Model, tensors: readonly Tensor[], order: "files" | "any"): AsyncIterable<Run>[] {
  const byFile = new Map<string | undefined, Tensor[]>();
  for (const tensor of tensors) {
    const others = byFile.get(tensor.file);
    if (others === undefined) byFile.set(tensor.file, [tensor]);
    else others.push(tensor);
  }
  const files = [...byFile.keys()];
  const open = async (file: string | undefined): Promise<void> => {
    if (file !== undefined) await model.openPart?.(file);
  };
  return [...byFile.values()].map(async function* (members, i) {
    const opened = open(files[i]);
    if (order === "files") open(files[i + 1]).catch(() => undefined); // reported when its turn comes
    await opened;
    yield* planRuns(members);
  });
}

interface Placed extends Extent {
  readonly tensor: Tensor;
}

/** One stream of one source; its members follow one another. */
interface Run {
  readonly source: Source;
  readonly members: Placed[];
  end: number;
}

function planRuns(tensors: readonly Tensor[]): Run[] {
  const bySource = new Map<Source, Placed[]>();
  for (const tensor of tensors) {
    const source = tensor.source();
    const run = runOf(source);
    const whole = run?.whole ?? source;
    const placed = { tensor, offset: run?.start ?? 0, byteLength: tensor.byteLength };
    const others = bySource.get(whole);
    if (others === undefined) bySource.set(whole, [placed]);
    else others.push(placed);
  }
  return [...bySource].flatMap(([source, members]) => planSourceRuns(source, members));
}

/** Tensors that share bytes with the one before, such as tied ones, are read again in a separate run. */
function planSourceRuns(source: Source, placed: readonly Placed[]): Run[] {
  const runs: Run[] = [];
  let run: Run | undefined;
  for (const member of [...placed].sort((a, b) => a.offset - b.offset)) {
    const joins = run !== undefined && member.offset >= run.end && member.offset - run.end <= MAX_GAP;
    if (run === undefined || !joins) {
      run = { source, members: [], end: member.offset };
      runs.push(run);
    }
    run.members.push(member);
    run.end = member.offset + member.byteLength;
  }
  return runs;
}

async function* streamRuns(
  runs: Iterable<Run> | AsyncIterable<Run>,
  signal: AbortSignal | undefined,
): AsyncGenerator<TensorPiece> {
  for await (const { source, members, end } of runs) {
    const start = members[0]?.offset ?? end;
    const cutter = new Cutter(members, start);
    for (const piece of cutter.passEmpty()) yield piece;
    if (end === start) continue;
    for await (const bytes of source.stream(start, { byteLength: end - start, signal })) {
      for (const piece of cutter.cut(bytes)) yield piece;
    }
  }
}

/** Cuts the bytes of a run into those of its members. */
class Cutter {
  readonly #members: readonly Placed[];
  #index = 0;
  #position: number;

  constructor(members: readonly Placed[], start: number) {
    this.#members = members;
    this.#position = start;
  }

  *cut(bytes: Bytes): Generator<TensorPiece> {
    const position = this.#position;
    const end = position + bytes.byteLength;
    this.#position = end;
    for (let member = this.#next; member !== undefined && member.offset < end; member = this.#next) {
      const from = Math.max(position, member.offset);
      const memberEnd = member.offset + member.byteLength;
      const own = bytes.subarray(from - position, Math.min(end, memberEnd) - position);
      yield { tensor: member.tensor, offset: from - member.offset, bytes: own };
      if (memberEnd > end) return;
      this.#index++;
      yield* this.passEmpty();
    }
  }

  *passEmpty(): Generator<TensorPiece> {
    for (let next = this.#next; next?.byteLength === 0; next = this.#next) {
      this.#index++;
      yield { tensor: next.tensor, offset: 0, bytes: EMPTY_BYTES };
    }
  }

  get #next(): Placed | undefined {
    return this.#members[this.#index];
  }
}

/**
 * Several streams at a time, each in its own order; the next item comes from whichever stream is ready. A stream's next
 * item is requested only after its last item was consumed, so items that are valid until then stay valid.
 */
export async function* interleave<T>(
  streams: Iterable<() => AsyncIterable<T>>,
  atOnce: number,
): AsyncGenerator<T, void> {
  const waiting = streams[Symbol.iterator]();
  const open = new Set<AsyncIterator<T>>();
  const active = new Map<AsyncIterator<T>, Promise<Answer<T>>>();
  try {
    for (;;) {
      while (active.size < atOnce) {
        const { done, value: start } = waiting.next();
        if (done === true) break;
        const iterator = start()[Symbol.asyncIterator]();
        open.add(iterator);
        active.set(iterator, ask(iterator));
      }
      if (active.size === 0) return;
      const { iterator, result } = await Promise.race(active.values());
      // To the end of the queue: a stream that is always ready must not starve the others.
      active.delete(iterator);
      if (result.done === true) {
        open.delete(iterator);
        continue;
      }
      yield result.value;
      active.set(iterator, ask(iterator));
    }
  } finally {
    await Promise.allSettled([...open].map((iterator) => iterator.return?.()));
  }
}

interface Answer<T> {
  readonly iterator: AsyncIterator<T>;
  readonly result: IteratorResult<T>;
}

async function ask<T>(iterator: AsyncIterator<T>): Promise<Answer<T>> {
  return { iterator, result: await iterator.next() };
}
