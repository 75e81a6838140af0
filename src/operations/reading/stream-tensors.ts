import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import type { Extent } from "../../bytes/extents.ts";
import { runOf } from "../../bytes/slice.ts";
import type { Source, StreamOptions } from "../../bytes/source.ts";
import type { Model } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";

export interface StreamTensorsOptions {
  /** Those of the model to read; all where absent. */
  readonly tensors?: readonly Tensor[] | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * "files" where absent: one file after the other. "any": several files at a time, so that pieces of different tensors
   * alternate; those of one tensor still come in order. The faster way through a model of many parts in object storage.
   */
  readonly order?: "files" | "any" | undefined;
}

/** Some bytes of a tensor. */
export interface TensorPiece {
  readonly tensor: Tensor;
  /** Where the bytes begin in the tensor. */
  readonly offset: number;
  /** Valid until the next piece is asked for. */
  readonly bytes: Bytes;
}

/** Unwanted bytes that are read along rather than begin another stream: less than starting one costs. */
const MAX_GAP = 1 << 20;

/** Four keep a store and a line busy, and leave each a share of the buffers that is worth having. */
const FILES_AT_ONCE = 4;

/**
 * Every tensor's bytes in one pass in the order of the files, checked as any read is, in bounded memory: the way to go
 * through a whole model, above all a remote one, where each byte is fetched and each page hashed once although tensors
 * do not begin on pages. An empty tensor gives one empty piece.
 */
export function streamTensors(model: Model, options: StreamTensorsOptions = {}): AsyncGenerator<TensorPiece> {
  return interleave(planStreams(model, options), options.order === "any" ? FILES_AT_ONCE : 1);
}

/** Nothing is looked at before the first one is asked for. */
function* planStreams(model: Model, options: StreamTensorsOptions): Generator<() => AsyncIterable<TensorPiece>> {
  const wanted = options.tensors?.map(({ name }) => model.tensor(name)) ?? model.tensors;
  const order = options.order ?? "files";
  const streams = model.openPart === undefined ? planRuns(wanted).map((run) => [run]) : lazyRuns(model, wanted, order);
  const together = order === "any" ? Math.min(FILES_AT_ONCE, streams.length) : 1;
  for (const runs of streams) yield () => streamRuns(runs, { signal: options.signal, together });
}

/**
 * Where parts are opened lazily, only open ones tell where their tensors lie: each is opened a little before its turn, so
 * that nobody waits for it. Where several are gone through at a time, the others go on meanwhile.
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
    if (order === "files") open(files[i + 1]).catch(() => undefined); // told when its turn comes
    await opened;
    yield* planRuns(members);
  });
}

interface Placed extends Extent {
  readonly tensor: Tensor;
}

/** One stream of one source; members lie in it one behind the other. */
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

/** Tensors that share bytes with the one before, such as tied ones, are read again in a run of their own. */
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
  options: StreamOptions,
): AsyncGenerator<TensorPiece> {
  for await (const { source, members, end } of runs) {
    const start = members[0]?.offset ?? end;
    const cutter = new Cutter(members, start);
    for (const piece of cutter.passEmpty()) yield piece;
    if (end === start) continue;
    for await (const bytes of source.stream(start, { ...options, byteLength: end - start })) {
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
 * Several streams at a time, each in its own order; whichever has something next comes next. A stream is asked on only
 * when its last item has been dealt with, so that items which are valid until then stay valid.
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
      // To the end of the line: a stream that always has something must not keep the others waiting.
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
