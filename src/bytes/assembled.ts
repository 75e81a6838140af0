import type { Bytes } from "../base/bytes.ts";
import { ReadGuard } from "./layers/base.ts";
import { isSlice } from "./slice.ts";
import { PIECE_BYTES, type ReadOptions, type Source, type SourceDescriptor, type StreamOptions } from "./source.ts";

/** A run of an assembled source: bytes of another one, or zeros. */
export type AssembledPart =
  | { readonly source: Source; readonly offset: number; readonly byteLength: number }
  | { readonly zeros: number };

/** Numbers of a part in a descriptor: which file, -1 for zeros; where in it; how long. */
const ROW = 3;

/**
 * Runs of other sources and of zeros, one after the other: a file as it will be, before it is written. It has a
 * descriptor if all its sources have one, so that a worker can hash it. Closing it closes nothing.
 */
export function assembledSource(parts: readonly AssembledPart[], label: string): AssembledSource {
  const sources: Source[] = [];
  const indexes = new Map<Source, number>();
  const rows = new Float64Array(parts.length * ROW);
  for (const [i, part] of parts.entries()) {
    if ("zeros" in part) {
      rows.set([-1, 0, part.zeros], i * ROW);
      continue;
    }
    // Slices of one file are one file: it is opened once.
    const [source, start] = isSlice(part.source) ? [part.source.whole, part.source.start] : [part.source, 0];
    let index = indexes.get(source);
    if (index === undefined) {
      index = sources.push(source) - 1;
      indexes.set(source, index);
    }
    rows.set([index, start + part.offset, part.byteLength], i * ROW);
  }
  return new AssembledSource(sources, rows, label);
}

/** The same from a descriptor's rows, over sources that were opened for its files: closing it closes them. */
export function assembledFrom(sources: readonly Source[], rows: Float64Array<ArrayBuffer>, label: string): Source {
  return new AssembledSource(sources, rows, label, "owner");
}

/** A source that can be read without a promise. */
type Blocking = Source & { readNow?(offset: number, into: Bytes): void };

class AssembledSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly readNow?: (offset: number, into: Bytes) => void;
  readonly #sources: readonly Blocking[];
  readonly #rows: Float64Array<ArrayBuffer>;
  /** Where each part begins. */
  readonly #starts: Float64Array<ArrayBuffer>;
  readonly #guard: ReadGuard;

  readonly #role: "owner" | "guest";

  constructor(
    sources: readonly Blocking[],
    rows: Float64Array<ArrayBuffer>,
    label: string,
    role: "owner" | "guest" = "guest",
  ) {
    this.label = label;
    this.#role = role;
    this.#sources = sources;
    this.#rows = rows;
    this.#starts = new Float64Array(rows.length / ROW);
    let end = 0;
    for (let i = 0; i < this.#starts.length; i++) {
      this.#starts[i] = end;
      end += rows[i * ROW + 2] as number;
    }
    this.byteLength = end;
    this.#guard = new ReadGuard(label, end);
    if (sources.every(({ readNow }) => readNow !== undefined))
      this.readNow = (offset, into) => this.#fillNow(offset, into);
  }

  get descriptor(): SourceDescriptor | undefined {
    const files: SourceDescriptor[] = [];
    for (const { descriptor } of this.#sources) {
      if (descriptor === undefined) return undefined;
      files.push(descriptor);
    }
    return { kind: "assembled", files, rows: this.#rows, byteLength: this.byteLength };
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const target = options.into ?? new Uint8Array(byteLength);
    for (const { source, from, start, end } of this.#runs(offset, byteLength)) {
      const into = target.subarray(start, end);
      if (source === undefined) into.fill(0);
      else await source.read(from, into.byteLength, { into, signal: options.signal });
    }
    return target;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    for (let done = 0; done < byteLength; done += PIECE_BYTES) {
      yield await this.read(offset + done, Math.min(PIECE_BYTES, byteLength - done), { signal: options.signal });
    }
  }

  async close(): Promise<void> {
    this.#guard.close();
    if (this.#role === "owner") await Promise.all(this.#sources.map((source) => source.close()));
  }

  #fillNow(offset: number, target: Bytes): void {
    this.#guard.checkRead(offset, target.byteLength, { into: target });
    for (const { source, from, start, end } of this.#runs(offset, target.byteLength)) {
      const into = target.subarray(start, end);
      if (source === undefined) into.fill(0);
      else source.readNow?.(from, into);
    }
  }

  /** The parts that cover a range, and which bytes of it each gives. */
  *#runs(offset: number, byteLength: number): Generator<Run> {
    const limit = offset + byteLength;
    for (let i = this.#find(offset), at = offset; at < limit; i++) {
      const [index, place, length] = this.#rows.subarray(i * ROW, (i + 1) * ROW) as unknown as [number, number, number];
      const begin = this.#starts[i] as number;
      const end = Math.min(limit, begin + length);
      if (end <= at) continue;
      yield { source: this.#sources[index], from: place + at - begin, start: at - offset, end: end - offset };
      at = end;
    }
  }

  /** The last part that begins at or before `offset`. */
  #find(offset: number): number {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] as number) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

interface Run {
  /** Undefined for zeros. */
  readonly source: Blocking | undefined;
  readonly from: number;
  readonly start: number;
  readonly end: number;
}
