import type { Bytes } from "../base/bytes.ts";
import { checkRange } from "./extents.ts";
import type { ReadOptions, Source, StreamOptions } from "./source.ts";

/** Bytes that are made of others when they are read, and that own nothing: streaming is reading piece by piece. */
export abstract class ComputedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #pieceBytes: number;

  constructor({ label, byteLength, pieceBytes }: ComputedFacts) {
    this.label = label;
    this.byteLength = byteLength;
    this.#pieceBytes = pieceBytes;
  }

  abstract read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes>;

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    checkRange(this.label, this.byteLength, offset, byteLength);
    const { signal } = options;
    for (let done = 0; done < byteLength; done += this.#pieceBytes) {
      yield await this.read(offset + done, Math.min(this.#pieceBytes, byteLength - done), { signal });
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

interface ComputedFacts {
  readonly label: string;
  readonly byteLength: number;
  /** What one step of a stream reads. */
  readonly pieceBytes: number;
}
