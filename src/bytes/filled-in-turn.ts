import type { Bytes } from "../base/bytes.ts";

/** Buffers that one request fills one after the other; each is handed out when it is full. */
export class FilledInTurn {
  readonly byteLength: number;
  readonly #pieces: readonly {
    readonly into: Bytes;
    readonly bytes: Promise<Bytes>;
    readonly resolve: (bytes: Bytes) => void;
    readonly reject: (error: unknown) => void;
  }[];
  #index = 0;
  #filled = 0;

  constructor(buffers: readonly Bytes[]) {
    this.byteLength = buffers.reduce((sum, { byteLength }) => sum + byteLength, 0);
    this.#pieces = buffers.map((into) => {
      const { promise, resolve, reject } = withResolvers<Bytes>();
      promise.catch(() => undefined); // thrown when its turn comes; until then it must not count as unhandled
      return { into, bytes: promise, resolve, reject };
    });
  }

  get count(): number {
    return this.#pieces.length;
  }

  /** The buffer, where there is but one. */
  get only(): Bytes | undefined {
    return this.#pieces.length === 1 ? this.#pieces[0]?.into : undefined;
  }

  piece(index: number): Promise<Bytes> {
    const piece = this.#pieces[index];
    if (piece === undefined) throw new Error(`there are ${this.count} pieces, asked for ${index}`);
    return piece.bytes;
  }

  /** Takes the next bytes of the request. */
  add(bytes: Bytes): void {
    let rest = bytes;
    while (rest.byteLength > 0) {
      const piece = this.#pieces[this.#index];
      if (piece === undefined) throw new Error("the source gave more bytes than it was asked for");
      const part = rest.subarray(0, piece.into.byteLength - this.#filled);
      piece.into.set(part, this.#filled);
      this.#filled += part.byteLength;
      rest = rest.subarray(part.byteLength);
      if (this.#filled === piece.into.byteLength) this.complete();
    }
  }

  /** The buffer whose turn it is has all its bytes. */
  complete(): void {
    const piece = this.#pieces[this.#index++];
    this.#filled = 0;
    piece?.resolve(piece.into);
  }

  /** Sources end streams early only with an error; one that does not must not leave a reader waiting for ever. */
  checkFull(): void {
    if (this.#index < this.count) throw new Error("the source gave fewer bytes than it was asked for");
  }

  /** Pieces that are not full yet get the error. */
  fail(error: unknown): void {
    for (const piece of this.#pieces.slice(this.#index)) piece.reject(error);
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
