import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { CutDigest, Hasher } from "../engine.ts";
import type { Blake3Core, Blake3Domain, Blake3Implementation, CvSlot } from "./implementation.ts";

/** A leaf of the tree; only the last one may be shorter. */
export const BLAKE3_CHUNK_BYTES = 1024;
/** The input of one compression. */
export const BLAKE3_BLOCK_BYTES = 64;
/** A chaining value: eight 32-bit words, little-endian. */
export const BLAKE3_CV_BYTES = 32;

/** Domain flags, BLAKE3 paper §2.1 table 3. */
export const BLAKE3_FLAGS = { chunkStart: 1, chunkEnd: 2, parent: 4, root: 8, keyedHash: 16 } as const;

/** BLAKE3 paper §2.1 table 1: the same eight words as SHA-256's. They are the key of the plain hash. */
export const BLAKE3_IV = [
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
] as const;

/** Inputs have fewer than 2^53 bytes, so fewer than 2^43 chunks. The tree is never deeper than this. */
const MAX_DEPTH = 44;

/** BLAKE3 on top of any core, plain and keyed (BLAKE3 paper §2.3). */
export function blake3(core: Blake3Core): Blake3Implementation {
  const plain = plainDomain();
  return {
    tree: core,
    create: () => new Blake3Hasher(core, plain),
    keyed(key) {
      const domain = { key: key.slice(), flags: BLAKE3_FLAGS.keyedHash };
      return {
        create: () => new Blake3Hasher(core, domain),
        wipe() {
          domain.key.fill(0);
          // A core in WebAssembly has the last key in its memory; hashing under the erased one replaces it.
          core.chunk(domain, new Uint8Array(0), 0, 0, { bytes: new Uint8Array(BLAKE3_CV_BYTES), offset: 0 });
        },
      };
    },
  };
}

/** The domain of the plain hash. */
function plainDomain(): Blake3Domain {
  const view = new DataView(new ArrayBuffer(BLAKE3_CV_BYTES));
  BLAKE3_IV.forEach((word, i) => {
    view.setUint32(4 * i, word, true);
  });
  return { key: new Uint8Array(view.buffer), flags: 0 };
}

/**
 * Keeps the roots of the complete subtrees so far on a stack. The last chunk waits until more input arrives, even if it
 * is full: it may be the end of the input, which is hashed with other flags.
 */
class Blake3Hasher implements Hasher {
  readonly #core: Blake3Core;
  readonly #domain: Blake3Domain;
  readonly #stack: Bytes = new Uint8Array(MAX_DEPTH * BLAKE3_CV_BYTES);
  readonly #pending: Bytes = new Uint8Array(BLAKE3_CHUNK_BYTES);
  #depth = 0;
  #pendingLength = 0;
  #chunkCount = 0;

  constructor(core: Blake3Core, domain: Blake3Domain) {
    this.#core = core;
    this.#domain = domain;
  }

  update(bytes: Bytes): void {
    let rest = bytes;
    if (this.#pendingLength > 0) {
      rest = this.#fill(rest);
      if (rest.byteLength === 0) return;
      this.#core.chunk(this.#domain, this.#pending, this.#chunkCount, 0, this.#top());
      this.#pushed(1);
    }
    while (rest.byteLength > BLAKE3_CHUNK_BYTES) {
      const count = this.#subtreeSize(rest.byteLength - 1);
      const byteLength = count * BLAKE3_CHUNK_BYTES;
      this.#core.subtree(this.#domain, rest.subarray(0, byteLength), this.#chunkCount, this.#top());
      this.#pushed(count);
      rest = rest.subarray(byteLength);
    }
    this.#pending.set(rest);
    this.#pendingLength = rest.byteLength;
  }

  digest(): Bytes {
    const flags = this.#depth === 0 ? BLAKE3_FLAGS.root : 0;
    const last = this.#pending.subarray(0, this.#pendingLength);
    this.#core.chunk(this.#domain, last, this.#chunkCount, flags, this.#top());
    for (let depth = this.#depth; depth > 0; depth--) {
      const pair = { bytes: this.#stack, offset: (depth - 1) * BLAKE3_CV_BYTES };
      this.#core.parent(this.#domain, pair, depth === 1 ? BLAKE3_FLAGS.root : 0);
    }
    return this.#stack.slice(0, BLAKE3_CV_BYTES);
  }

  /** Completes the waiting chunk; returns what is left of the input. */
  #fill(bytes: Bytes): Bytes {
    const taken = bytes.subarray(0, BLAKE3_CHUNK_BYTES - this.#pendingLength);
    this.#pending.set(taken, this.#pendingLength);
    this.#pendingLength += taken.byteLength;
    return bytes.subarray(taken.byteLength);
  }

  /** The largest complete subtree that starts at the current chunk and lies within `byteLength`. */
  #subtreeSize(byteLength: number): number {
    let count = this.#core.maxChunks;
    while (count * BLAKE3_CHUNK_BYTES > byteLength || this.#chunkCount % count !== 0) count /= 2;
    return count;
  }

  #top(): CvSlot {
    return { bytes: this.#stack, offset: this.#depth * BLAKE3_CV_BYTES };
  }

  /** Call after putting a subtree of `count` chunks on the stack: merges every pair of equal size. */
  #pushed(count: number): void {
    this.#depth++;
    this.#chunkCount += count;
    // Division, not shifts: the count may exceed 32 bits.
    for (let pairs = this.#chunkCount / count; pairs % 2 === 0; pairs /= 2) {
      this.#core.parent(this.#domain, { bytes: this.#stack, offset: (this.#depth - 2) * BLAKE3_CV_BYTES }, 0);
      this.#depth--;
    }
  }
}

/**
 * BLAKE3 of an input that is cut into subtrees. A chunk's chaining value depends on its number, not on the bytes before
 * it. So a subtree is hashed like a separate input, except for those numbers and the flag of the root (BLAKE3 paper
 * §2.4).
 */
export function cutBlake3(core: Blake3Core): CutDigest {
  const domain = plainDomain();
  return {
    subtree: (at) => new Blake3Hasher(coreWithin(core, at / BLAKE3_CHUNK_BYTES), domain),
    whole: () => new Blake3Hasher(core, domain),
    join: (values) => joinValues(core, domain, values, BLAKE3_FLAGS.root),
  };
}

/** The same core for a run of chunks inside the input: counts from `first`, and never sets the flag of the root. */
function coreWithin(core: Blake3Core, first: number): Blake3Core {
  const inner = (flags: number): number => flags & ~BLAKE3_FLAGS.root;
  return {
    maxChunks: core.maxChunks,
    subtree: (domain, input, counter, out) => core.subtree(domain, input, first + counter, out),
    chunk: (domain, input, counter, flags, out) => core.chunk(domain, input, first + counter, inner(flags), out),
    parent: (domain, pair, flags) => core.parent(domain, pair, inner(flags)),
  };
}

/** The left half has the largest power of two of subtrees that leaves at least one for the right half. */
function joinValues(core: Blake3Core, domain: Blake3Domain, values: readonly Bytes[], flags: number): Bytes {
  const [only] = values;
  if (only !== undefined && values.length === 1) return only;
  let left = 1;
  while (2 * left < values.length) left *= 2;
  const halves = [values.slice(0, left), values.slice(left)];
  const pair = concatBytes(halves.map((half) => joinValues(core, domain, half, 0)));
  core.parent(domain, { bytes: pair, offset: 0 }, flags);
  return pair.slice(0, BLAKE3_CV_BYTES);
}
