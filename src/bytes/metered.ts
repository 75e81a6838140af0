import type { Bytes } from "../base/bytes.ts";
import { DelegatingSource } from "./delegating.ts";
import type { ReadOptions, Source, StreamOptions } from "./source.ts";

/** What looking at something has cost so far. */
export interface Meter {
  /** Reads and streams that reached the source. */
  reads: number;
  bytes: number;
}

/** Counts what passes through; changes nothing else. */
export function withMeter(source: Source, meter: Meter): Source {
  return new MeteredSource(source, meter);
}

class MeteredSource extends DelegatingSource {
  readonly #meter: Meter;

  constructor(inner: Source, meter: Meter) {
    super(inner);
    this.#meter = meter;
  }

  override read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    this.#meter.reads++;
    this.#meter.bytes += byteLength;
    return super.read(offset, byteLength, options);
  }

  override async *stream(offset: number, options?: StreamOptions): AsyncGenerator<Bytes> {
    this.#meter.reads++;
    for await (const piece of super.stream(offset, options)) {
      this.#meter.bytes += piece.byteLength;
      yield piece;
    }
  }
}
