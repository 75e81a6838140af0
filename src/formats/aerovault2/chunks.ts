import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { CHACHA_NONCE_BYTES, CHACHA_TAG_BYTES, type ChachaKey } from "../../primitives/cipher/chacha20-poly1305.ts";
import { GCM_SIV_NONCE_BYTES, GCM_SIV_TAG_BYTES, type GcmSivKey } from "../../primitives/cipher/gcm-siv.ts";
import type { Engine } from "../../primitives/engine.ts";

const BOUND_AAD = encodeUtf8("AeroVault v2 chunk aad v3");
const INNER_BYTES = GCM_SIV_NONCE_BYTES + GCM_SIV_TAG_BYTES;
const OUTER_BYTES = CHACHA_NONCE_BYTES + CHACHA_TAG_BYTES;

/** What a chunk is bound to. */
export interface ChunkName {
  readonly index: number;
  readonly count: number;
  /** Absent in entries of older writers, whose chunks are bound only to their index. */
  readonly fileId: Bytes | undefined;
}

/**
 * Decrypts chunks: AES-256-GCM-SIV, and in a cascade ChaCha20-Poly1305 around it. Both layers have the same associated
 * data, which depends on whether the entry has a file id, never on the header (docs/formats/aerovault2.md#chunks).
 */
export class ChunkCipher {
  /** How much longer a stored chunk is than its plain bytes. */
  readonly sealBytes: number;
  readonly #content: GcmSivKey;
  readonly #cascade: ChachaKey | undefined;

  private constructor(content: GcmSivKey, cascade: ChachaKey | undefined) {
    this.#content = content;
    this.#cascade = cascade;
    this.sealBytes = INNER_BYTES + (cascade === undefined ? 0 : OUTER_BYTES);
  }

  /** Copies the keys; `wipe` erases the copies. */
  static async create(
    engine: Engine,
    keys: { readonly content: Bytes; readonly cascade: Bytes | undefined },
  ): Promise<ChunkCipher> {
    const cascade = keys.cascade === undefined ? undefined : await engine.chacha20Poly1305(keys.cascade);
    return new ChunkCipher(await engine.aesGcmSiv(keys.content), cascade);
  }

  get layers(): "one" | "two" {
    return this.#cascade === undefined ? "one" : "two";
  }

  /** The nonces are random, and new for every chunk; the inner one is drawn first. */
  seal(plain: Bytes, name: ChunkName, nonce: () => Bytes): Bytes {
    const aad = chunkAad(name);
    const innerNonce = nonce();
    const inner = concatBytes([innerNonce, this.#content.seal(innerNonce, plain, aad)]);
    if (this.#cascade === undefined) return inner;
    const outerNonce = nonce();
    return concatBytes([outerNonce, this.#cascade.seal(outerNonce, inner, aad)]);
  }

  /** Undefined if the blob was not sealed under this name. */
  open(blob: Bytes, name: ChunkName): Bytes | undefined {
    if (blob.byteLength < this.sealBytes) return undefined;
    const aad = chunkAad(name);
    const inner =
      this.#cascade === undefined
        ? blob
        : this.#cascade.open(blob.subarray(0, CHACHA_NONCE_BYTES), blob.subarray(CHACHA_NONCE_BYTES), aad);
    if (inner === undefined) return undefined;
    return this.#content.open(inner.subarray(0, GCM_SIV_NONCE_BYTES), inner.subarray(GCM_SIV_NONCE_BYTES), aad);
  }

  wipe(): void {
    this.#content.wipe();
    this.#cascade?.wipe();
  }
}

/** The index alone, or 49 bytes: the label, the file id, the number of chunks, the index. */
export function chunkAad({ index, count, fileId }: ChunkName): Bytes {
  if (fileId === undefined) return u32(index);
  return concatBytes([BOUND_AAD, fileId, u32(count), u32(index)]);
}

function u32(value: number): Bytes {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

/** Where one chunk is. */
export interface PlacedChunk {
  readonly index: number;
  /** Offset of its length prefix in the file. */
  readonly offset: number;
  /** Offset of its first plain byte in the entry. */
  readonly start: number;
  readonly plainBytes: number;
}

/** Where the chunks of an entry are. */
export interface ChunkLayout {
  readonly kind: "even" | "walked";
  chunk(index: number): PlacedChunk;
  /** The chunk that holds a plain byte. */
  find(position: number): number;
}

export interface EvenLayout {
  /** Offset of the first chunk in the file. */
  readonly offset: number;
  readonly size: number;
  readonly chunkCount: number;
  readonly chunkSize: number;
  /** How much longer a stored chunk is than its plain bytes, its prefix included. */
  readonly overhead: number;
}

/**
 * The layout of every known writer: all chunks are full except the last. Undefined if the numbers contradict that. It
 * is a guess that each chunk's own prefix has to confirm.
 */
export function evenLayout({ offset, size, chunkCount, chunkSize, overhead }: EvenLayout): ChunkLayout | undefined {
  if (chunkCount !== Math.ceil(size / chunkSize)) return undefined;
  return {
    kind: "even",
    chunk: (index) => ({
      index,
      offset: offset + index * (chunkSize + overhead),
      start: index * chunkSize,
      plainBytes: Math.min(chunkSize, size - index * chunkSize),
    }),
    find: (position) => Math.floor(position / chunkSize),
  };
}

/** The layout from a table of lengths: the format lets any chunk be short. */
export function walkedLayout(offset: number, plainLengths: readonly number[], overhead: number): ChunkLayout {
  const starts = new Float64Array(plainLengths.length + 1);
  plainLengths.forEach((length, i) => {
    starts[i + 1] = (starts[i] as number) + length;
  });
  return {
    kind: "walked",
    chunk: (index) => ({
      index,
      offset: offset + (starts[index] as number) + index * overhead,
      start: starts[index] as number,
      plainBytes: plainLengths[index] as number,
    }),
    find(position) {
      let low = 0;
      let high = plainLengths.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((starts[middle + 1] as number) > position) high = middle;
        else low = middle + 1;
      }
      return low;
    },
  };
}
