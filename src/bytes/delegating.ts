import type { Bytes } from "../base/bytes.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";

/** Passes everything on: the base of decorators that change one thing. */
export abstract class DelegatingSource implements Source {
  protected readonly inner: Source;

  constructor(inner: Source) {
    this.inner = inner;
  }

  get label(): string {
    return this.inner.label;
  }

  get byteLength(): number {
    return this.inner.byteLength;
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.inner.descriptor;
  }

  get prefers(): "stream" | undefined {
    return this.inner.prefers;
  }

  read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    return this.inner.read(offset, byteLength, options);
  }

  stream(offset: number, options?: StreamOptions): AsyncIterable<Bytes> {
    return this.inner.stream(offset, options);
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}
