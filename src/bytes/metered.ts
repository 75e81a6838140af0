import type { Bytes } from "../base/bytes.ts";
import { DelegatingSource } from "./delegating.ts";
import type { ReadOptions, Source, StreamOptions } from "./source.ts";

/** What looking at something has cost so far. */
export interface Meter {
  /** Reads and streams that reached the source. */
  reads: number;
  bytes: number;
  /** Told of every run that was read, once the reader has it; who listens may change while the source is open. */
  onRead?: ReadListener | undefined;
}

/** Told of a run of a file, by the file's label. */
export type ReadListener = (label: string, offset: number, byteLength: number) => void;

/** Counts what passes through; changes nothing else. Workers that open the bytes themselves pass by. */
export function withMeter(source: Source, meter: Meter): Source {
  return new MeteredSource(source, meter);
}

class MeteredSource extends DelegatingSource {
  readonly #meter: Meter;

  constructor(inner: Source, meter: Meter) {
    super(inner);
    this.#meter = meter;
  }

  override async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    this.#meter.reads++;
    this.#meter.bytes += byteLength;
    const bytes = await super.read(offset, byteLength, options);
    this.#meter.onRead?.(this.label, offset, byteLength);
    return bytes;
  }

  override async *stream(offset: number, options?: StreamOptions): AsyncGenerator<Bytes> {
    this.#meter.reads++;
    let at = offset;
    for await (const piece of super.stream(offset, options)) {
      const { byteLength } = piece;
      this.#meter.bytes += byteLength;
      yield piece;
      this.#meter.onRead?.(this.label, at, byteLength);
      at += byteLength;
    }
  }
}
