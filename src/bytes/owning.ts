import type { Bytes } from "../base/bytes.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";

/** A source that also closes what it was opened from: a file inside an archive that nobody else holds. */
export function withOwner(source: Source, owner: { close(): Promise<void> }): Source {
  return new OwningSource(source, owner);
}

class OwningSource implements Source {
  readonly #inner: Source;
  readonly #owner: { close(): Promise<void> };

  constructor(inner: Source, owner: { close(): Promise<void> }) {
    this.#inner = inner;
    this.#owner = owner;
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

  read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    return this.#inner.read(offset, byteLength, options);
  }

  stream(offset: number, options?: StreamOptions): AsyncIterable<Bytes> {
    return this.#inner.stream(offset, options);
  }

  async close(): Promise<void> {
    await this.#inner.close();
    await this.#owner.close();
  }
}
