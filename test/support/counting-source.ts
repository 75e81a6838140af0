import type { Bytes } from "../../src/base/bytes.ts";
import type { ReadOptions, Source, StreamOptions } from "../../src/bytes/source.ts";

/** One call that reached the source below. */
export interface CountedCall {
  readonly kind: "read" | "stream";
  readonly offset: number;
  readonly byteLength: number;
}

/** A Source that writes down every read and stream, for tests of what an operation costs. */
export interface CountingSource extends Source {
  readonly calls: readonly CountedCall[];
  /** Bytes handed out so far, by reads and streams together. */
  readonly byteCount: number;
  readonly closeCount: number;
}

export function countingSource(source: Source): CountingSource {
  const calls: CountedCall[] = [];
  let byteCount = 0;
  let closeCount = 0;
  return {
    label: source.label,
    byteLength: source.byteLength,
    descriptor: source.descriptor,
    calls,
    get byteCount() {
      return byteCount;
    },
    get closeCount() {
      return closeCount;
    },
    async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
      calls.push({ kind: "read", offset, byteLength });
      const bytes = await source.read(offset, byteLength, options);
      byteCount += byteLength;
      return bytes;
    },
    async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
      calls.push({ kind: "stream", offset, byteLength: options.byteLength ?? source.byteLength - offset });
      for await (const piece of source.stream(offset, options)) {
        byteCount += piece.byteLength;
        yield piece;
      }
    },
    close(): Promise<void> {
      closeCount++;
      return source.close();
    },
  };
}
