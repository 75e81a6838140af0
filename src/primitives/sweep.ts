import type { Bytes } from "../base/bytes.ts";
import type { HashExtent, Hasher } from "./engine.ts";

/** An extent being hashed. */
interface Active {
  readonly index: number;
  readonly end: number;
  readonly hasher: Hasher;
}

/**
 * Goes through a source from its beginning to its end, and feeds every extent that covers the bytes. The usual piece,
 * in which no extent begins or ends, takes a path so short that V8 compiles it in no time: compiling took as long as
 * hashing 200 MB when it was one long function.
 */
export class Sweep {
  readonly #create: (index: number) => Hasher;
  readonly #extents: readonly HashExtent[];
  readonly #order: readonly number[];
  readonly #digests: Bytes[];
  #active: Active[] = [];
  #hashers: Hasher[] = [];
  #next = 0;
  /** Up to here the same extents are active. */
  #change = 0;

  constructor(create: (index: number) => Hasher, extents: readonly HashExtent[], order: readonly number[]) {
    this.#create = create;
    this.#extents = extents;
    this.#order = order;
    this.#digests = new Array<Bytes>(extents.length);
  }

  feed(start: number, piece: Bytes): void {
    if (start + piece.byteLength <= this.#change) for (const hasher of this.#hashers) hasher.update(piece);
    else this.#feedParts(start, piece);
  }

  finish(): Bytes[] {
    this.#changeAt(Number.POSITIVE_INFINITY);
    return this.#digests;
  }

  /** Cuts the piece where extents begin and end. */
  #feedParts(start: number, piece: Bytes): void {
    const end = start + piece.byteLength;
    for (let position = start; position < end; ) {
      if (position >= this.#change) this.#changeAt(position);
      const until = Math.min(end, this.#change);
      const part = piece.subarray(position - start, until - start);
      for (const hasher of this.#hashers) hasher.update(part);
      position = until;
    }
  }

  #changeAt(position: number): void {
    this.#active = this.#active.filter(({ index, end, hasher }) => {
      if (end > position) return true;
      this.#digests[index] = hasher.digest();
      return false;
    });
    this.#openUpTo(position);
    this.#hashers = this.#active.map(({ hasher }) => hasher);
    const startOfNext = this.#extents[this.#order[this.#next] as number]?.offset ?? Number.POSITIVE_INFINITY;
    this.#change = this.#active.reduce((nearest, { end }) => Math.min(nearest, end), startOfNext);
  }

  #openUpTo(position: number): void {
    for (; this.#next < this.#order.length; this.#next++) {
      const index = this.#order[this.#next] as number;
      const { offset, byteLength } = this.#extents[index] as HashExtent;
      if (offset > position) return;
      if (byteLength === 0) this.#digests[index] = this.#create(index).digest();
      else this.#active.push({ index, end: offset + byteLength, hasher: this.#create(index) });
    }
  }
}
