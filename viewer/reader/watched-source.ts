import type { Bytes } from "../../src/base/bytes.ts";
import { DelegatingSource } from "../../src/bytes/delegating.ts";
import type { ReadOptions, Source, StreamOptions } from "../../src/bytes/source.ts";

/** Told of every run of a file that was read, by the file's label. */
export type ReadListener = (label: string, offset: number, byteLength: number) => void;

/** Who listens can change while the source is open: only verifying wants to know. */
export interface ReadWatch {
  onRead: ReadListener | undefined;
  /** Bytes that were read so far. */
  bytes: number;
  reads: number;
}

/** Tells what passes through; workers that open the bytes themselves pass by. */
export function watchedSource(source: Source, watch: ReadWatch): Source {
  return new WatchedSource(source, watch);
}

class WatchedSource extends DelegatingSource {
  readonly #watch: ReadWatch;

  constructor(inner: Source, watch: ReadWatch) {
    super(inner);
    this.#watch = watch;
  }

  override async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    this.#watch.reads++;
    const bytes = await super.read(offset, byteLength, options);
    this.#tell(offset, byteLength);
    return bytes;
  }

  override async *stream(offset: number, options?: StreamOptions): AsyncGenerator<Bytes> {
    this.#watch.reads++;
    let at = offset;
    for await (const piece of super.stream(offset, options)) {
      const { byteLength } = piece;
      yield piece;
      this.#tell(at, byteLength);
      at += byteLength;
    }
  }

  #tell(offset: number, byteLength: number): void {
    this.#watch.bytes += byteLength;
    this.#watch.onRead?.(this.label, offset, byteLength);
  }
}
