import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { encodeHex, encodeUtf8 } from "../../base/text.ts";
import { AES_KEY_BYTES } from "../../primitives/cipher/aes.ts";
import { GCM_SIV_NONCE_BYTES, GCM_SIV_TAG_BYTES, type GcmSivKey } from "../../primitives/cipher/gcm-siv.ts";
import type { Engine, KeyedDigest } from "../../primitives/engine.ts";
import type { VaultKeys } from "./keys.ts";
import { PREFIX_BYTES } from "./layout.ts";

/** What encryption adds to a manifest or a block: the nonce before it, the tag after it. */
export const SEAL_BYTES = GCM_SIV_NONCE_BYTES + GCM_SIV_TAG_BYTES;

/** Nonce and tag of a sealed manifest. They differ for every seal, even if two states are equal otherwise. */
export function sealOf(blob: Bytes): Bytes {
  return concatBytes([blob.subarray(0, GCM_SIV_NONCE_BYTES), blob.subarray(-GCM_SIV_TAG_BYTES)]);
}

const MANIFEST_AAD = encodeUtf8("AeroVault v3 manifest");
const BLOCK_AAD = encodeUtf8("AeroVault v3 block");
/** A chunk id is this many bytes of keyed BLAKE3, written as hex. */
const CHUNK_ID_BYTES = 16;
const CHUNK_ID_DIGITS = 2 * CHUNK_ID_BYTES;

/** Identifies a block, so that no block can replace another. */
export interface BlockName {
  readonly blockIndex: number;
  /** The key of the record, 32 hex digits. */
  readonly id: string;
}

/**
 * Encrypts and decrypts the parts of one vault and computes its chunk ids. In the plaintext lane nothing is encrypted,
 * and the key of chunk ids is public.
 */
export class VaultCipher {
  /** Offset of the first plain byte in a part: after the nonce. */
  readonly plainOffset: number;
  /** How much longer a part is than its plain bytes. */
  readonly sealBytes: number;
  readonly #key: GcmSivKey | undefined;
  readonly #ids: KeyedDigest;

  private constructor(key: GcmSivKey | undefined, ids: KeyedDigest) {
    this.#key = key;
    this.#ids = ids;
    this.plainOffset = key === undefined ? 0 : GCM_SIV_NONCE_BYTES;
    this.sealBytes = key === undefined ? 0 : SEAL_BYTES;
  }

  /** Copies the keys; `wipe` erases the copies. */
  static async create(engine: Engine, keys: VaultKeys): Promise<VaultCipher> {
    const key = keys.lane === "plain" ? undefined : await engine.aesGcmSiv(keys.master);
    return new VaultCipher(key, await engine.blake3Keyed(keys.chunkId));
  }

  /** Loads the code that `create` needs, while the keys are not known yet. */
  static async prepare(engine: Engine): Promise<void> {
    const blank = new Uint8Array(AES_KEY_BYTES);
    const key = await engine.aesGcmSiv(blank);
    key.wipe();
    (await engine.blake3Keyed(blank)).wipe();
  }

  /** The nonce is random and new for every seal. */
  sealManifest(json: Bytes, nonce: () => Bytes): Bytes {
    return this.#seal(json, MANIFEST_AAD, nonce);
  }

  /** Undefined if the bytes are not those that were sealed. */
  openManifest(blob: Bytes): Bytes | undefined {
    return this.#open(blob, MANIFEST_AAD);
  }

  /**
   * A block without its length prefix; in the plaintext lane the payload itself. Written to the start of `into`, if
   * given.
   */
  sealBlock(payload: Bytes, name: BlockName, nonce: () => Bytes, into?: Bytes): Bytes {
    return this.#seal(payload, blockAad(name), nonce, into);
  }

  /** The compressed bytes or the raw chunk; undefined if the block is not the one that was sealed under this name. */
  openBlock(blob: Bytes, name: BlockName, into?: Bytes): Bytes | undefined {
    return this.#open(blob, blockAad(name), into);
  }

  /** The id of a chunk by its plain bytes. */
  chunkId(chunk: Bytes): string {
    return encodeHex(this.#ids.digest(chunk).subarray(0, CHUNK_ID_BYTES));
  }

  wipe(): void {
    this.#key?.wipe();
    this.#ids.wipe();
  }

  #seal(plain: Bytes, aad: Bytes, nonce: () => Bytes, into?: Bytes): Bytes {
    if (this.#key === undefined) return plain;
    const byteLength = plain.byteLength + SEAL_BYTES;
    const blob = into === undefined ? new Uint8Array(byteLength) : into.subarray(0, byteLength);
    const drawn = nonce();
    blob.set(drawn);
    this.#key.seal(drawn, plain, aad, blob.subarray(GCM_SIV_NONCE_BYTES));
    return blob;
  }

  #open(blob: Bytes, aad: Bytes, into?: Bytes): Bytes | undefined {
    if (this.#key === undefined) return blob;
    if (blob.byteLength < SEAL_BYTES) return undefined;
    return this.#key.open(blob.subarray(0, GCM_SIV_NONCE_BYTES), blob.subarray(GCM_SIV_NONCE_BYTES), aad, into);
  }
}

/** 58 bytes: the label, the index as u64, the id as text. */
export function blockAad({ blockIndex, id }: BlockName): Bytes {
  const index = new Uint8Array(8);
  new DataView(index.buffer).setBigUint64(0, BigInt(blockIndex), true);
  return concatBytes([BLOCK_AAD, index, encodeUtf8(id)]);
}

/** The eight bytes before a stored block. */
export function encodePrefix(blockLen: number): Bytes {
  const prefix = new Uint8Array(PREFIX_BYTES);
  new DataView(prefix.buffer).setBigUint64(0, BigInt(blockLen), true);
  return prefix;
}

/** True for a valid chunk id; the reference does not check this. */
export function isChunkId(text: string): boolean {
  if (text.length !== CHUNK_ID_DIGITS) return false;
  for (let i = 0; i < CHUNK_ID_DIGITS; i++) {
    const code = text.charCodeAt(i);
    if (!((code >= 0x30 && code <= 0x39) || (code >= 0x61 && code <= 0x66))) return false;
  }
  return true;
}
