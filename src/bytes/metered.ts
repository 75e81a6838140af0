import type { Bytes } from "../base/bytes.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";

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

class MeteredSource implements Source {
  readonly #inner: Source;
  readonly #meter: Meter;

  constructor(inner: Source, meter: Meter) {
    this.#inner = inner;
    this.#meter = meter;
  }

  get label(): string {
    return this.#inner.label;
  }

  get byteLength(): number {
    return this.#inner.byteLength;
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.#inner.descriptor;
  }

  async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    this.#meter.reads++;
    this.#meter.bytes += byteLength;
    return this.#inner.read(offset, byteLength, options);
  }

  async *stream(offset: number, options?: StreamOptions): AsyncGenerator<Bytes> {
    this.#meter.reads++;
    for await (const piece of this.#inner.stream(offset, options)) {
      this.#meter.bytes += piece.byteLength;
      yield piece;
    }
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}
