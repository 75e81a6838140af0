import type { Bytes } from "../base/bytes.ts";

/** A buffer that one request fills from the front; each piece of it is handed out as soon as it is full. */
export class FilledInTurn {
  readonly into: Bytes;
  readonly #pieceBytes: number;
  readonly #pieces: readonly {
    readonly bytes: Promise<Bytes>;
    readonly resolve: (bytes: Bytes) => void;
    readonly reject: (error: unknown) => void;
  }[];
  #full = 0;
  #filled = 0;

  constructor(into: Bytes, pieceBytes: number) {
    this.into = into;
    this.#pieceBytes = pieceBytes;
    this.#pieces = Array.from({ length: Math.ceil(into.byteLength / pieceBytes) }, () => {
      const { promise, resolve, reject } = withResolvers<Bytes>();
      promise.catch(() => undefined); // thrown when its turn comes; until then it must not count as unhandled
      return { bytes: promise, resolve, reject };
    });
  }

  /** The pieces in order, all but the last of the same length. */
  get pieces(): readonly Promise<Bytes>[] {
    return this.#pieces.map(({ bytes }) => bytes);
  }

  /** Takes note of further bytes that will not change any more. */
  landed(byteLength: number): void {
    this.#filled += byteLength;
    if (this.#filled > this.into.byteLength) throw new Error("the source gave more bytes than it was asked for");
    for (;;) {
      const start = this.#full * this.#pieceBytes;
      const end = Math.min(start + this.#pieceBytes, this.into.byteLength);
      if (this.#full === this.#pieces.length || end > this.#filled) return;
      this.#pieces[this.#full++]?.resolve(this.into.subarray(start, end));
    }
  }

  /** All bytes are here, whether or not the source told of them. */
  complete(): void {
    this.landed(this.into.byteLength - this.#filled);
  }

  /** Pieces that are not full yet get the error. */
  fail(error: unknown): void {
    for (const piece of this.#pieces.slice(this.#full)) piece.reject(error);
  }
}

/** `Promise.withResolvers`, which browsers have had only since 2024. */
function withResolvers<T>(): {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
} {
  let resolve: (value: T) => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
