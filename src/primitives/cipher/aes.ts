import { type Bytes, EMPTY_BYTES, equalBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { decodeHex } from "../../base/text.ts";

/** AES-256-GCM appends a tag of this length. */
export const GCM_TAG_BYTES = 16;
/** The nonce that GCM is made for. */
export const GCM_NONCE_BYTES = 12;
/** Keys of AES-256. */
export const AES_KEY_BYTES = 32;
/** RFC 3394 puts a check value of this length before the wrapped key. */
export const KEY_WRAP_BYTES = 8;

/**
 * Whether a wrapped key can have this length: whole words, at least two of them after the check value (RFC 3394 §2).
 * Callers check this first, because OpenSSL returns an empty key for no bytes.
 */
export function canBeWrapped(byteLength: number): boolean {
  return byteLength >= 3 * KEY_WRAP_BYTES && byteLength % KEY_WRAP_BYTES === 0;
}

/** A key, ready for many messages: NIST SP 800-38D with a 96-bit nonce and a 128-bit tag. */
export interface GcmKey {
  /** Ciphertext and tag. A nonce must never be used twice with one key. */
  seal(nonce: Bytes, plain: Bytes, associated: Bytes): Promise<Bytes>;
  /** The plain bytes; undefined if the tag does not match: then no part of them is returned. */
  open(nonce: Bytes, sealed: Bytes, associated: Bytes): Promise<Bytes | undefined>;
}

/** AES with keys of 256 bits. */
export interface Aes {
  /** `key` is copied: the caller may wipe it afterwards. */
  gcm(key: Bytes): Promise<GcmKey>;
  /** AES Key Wrap (RFC 3394) of a key of 16 bytes or more, a multiple of 8. */
  wrapKey(wrappingKey: Bytes, key: Bytes): Promise<Bytes>;
  /** Undefined if the wrapping key is wrong or the bytes are damaged. The two cannot be told apart. */
  unwrapKey(wrappingKey: Bytes, wrapped: Bytes): Promise<Bytes | undefined>;
}

/** McGrew and Viega, "The Galois/Counter Mode of Operation", test case 16. */
const GCM_ANSWER = {
  key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
  nonce: "cafebabefacedbaddecaf888",
  plain:
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
  associated: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
  sealed:
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
} as const;

/** RFC 3394 §4.6. */
const WRAP_ANSWER = {
  wrappingKey: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
  key: "00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f",
  wrapped: "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21",
} as const;

/** True if the published answers come out and a flipped bit is noticed. */
export async function provesAes(aes: Aes): Promise<boolean> {
  const { key, nonce, plain, associated, sealed } = mapHex(GCM_ANSWER);
  const gcm = await aes.gcm(key);
  if (!equalBytes(await gcm.seal(nonce, plain, associated), sealed)) return false;
  if (!equalBytes((await gcm.open(nonce, sealed, associated)) ?? EMPTY_BYTES, plain)) return false;
  const damaged = sealed.map((byte, i) => (i === 3 ? byte ^ 1 : byte));
  if ((await gcm.open(nonce, damaged, associated)) !== undefined) return false;
  const wrap = mapHex(WRAP_ANSWER);
  if (!equalBytes(await aes.wrapKey(wrap.wrappingKey, wrap.key), wrap.wrapped)) return false;
  if (!equalBytes((await aes.unwrapKey(wrap.wrappingKey, wrap.wrapped)) ?? EMPTY_BYTES, wrap.key)) return false;
  return (await aes.unwrapKey(wrap.key, wrap.wrapped)) === undefined;
}

function mapHex<K extends string>(answer: Readonly<Record<K, string>>): Record<K, Bytes> {
  const entries = Object.entries<string>(answer).map(([name, hex]) => [name, decodeHex(hex) ?? EMPTY_BYTES]);
  return Object.fromEntries(entries) as Record<K, Bytes>;
}

export const AES_BLOCK_BYTES = 16;

/**
 * AES-256 under one key, on whole blocks. For building modes that hosts lack: AES-SIV, and a counter that counts from
 * the other end. Synchronous. Never use it as a mode by itself: equal blocks stay equal.
 */
export interface AesBlocks {
  /** Enciphers each block separately. Returns a new buffer. */
  encrypt(blocks: Bytes): Bytes;
  /** The last block of cipher block chaining from zeros: adds each block to the result so far, then enciphers. */
  chain(blocks: Bytes): Bytes;
  /** Overwrites the key. May be called twice. Using the key afterwards is a UsageError `usage/aes.blocks`. */
  wipe(): void;
}

/** One implementation: prepares keys of 32 bytes, which it copies. */
export type MakeAesBlocks = (key: Bytes) => AesBlocks;

/** Refuses keys that do not have the length of AES-256. */
export function checkAesKey(key: Bytes): void {
  if (key.byteLength === AES_KEY_BYTES) return;
  const message = `Cannot use AES-256: the key must have ${AES_KEY_BYTES} bytes, found ${key.byteLength}`;
  throw new UsageError("usage/aes.blocks", message, { source: "engine" });
}

/** Without this error a wiped key would silently encipher with zeros. */
export function wipedBlocks(): UsageError {
  const message = "Cannot encipher blocks: the key must not have been wiped, and it was";
  return new UsageError("usage/aes.blocks", message, { source: "engine" });
}

/** Refuses bytes that are not whole blocks. */
export function checkBlocks(blocks: Bytes): void {
  if (blocks.byteLength % AES_BLOCK_BYTES === 0) return;
  const message = `Cannot encipher blocks: their length must be a multiple of ${AES_BLOCK_BYTES}, found ${blocks.byteLength}`;
  throw new UsageError("usage/aes.blocks", message, { source: "engine" });
}

/** AES-256 under one key, on whole blocks. */
export interface BlockCipher {
  /** The enciphered blocks, valid until the next call. */
  encrypt(blocks: Bytes): Bytes;
  wipe(): void;
}

/** AES-256 on blocks, over a cipher that takes at most `windowBytes` at a time. */
export class CipherBlocks implements AesBlocks {
  #cipher: BlockCipher | undefined;
  readonly #windowBytes: number;

  constructor(cipher: BlockCipher, windowBytes: number) {
    this.#cipher = cipher;
    this.#windowBytes = windowBytes;
  }

  encrypt(blocks: Bytes): Bytes {
    const cipher = this.#ready(blocks);
    const result = new Uint8Array(blocks.byteLength);
    for (let at = 0; at < blocks.byteLength; at += this.#windowBytes) {
      result.set(cipher.encrypt(blocks.subarray(at, at + this.#windowBytes)), at);
    }
    return result;
  }

  chain(blocks: Bytes): Bytes {
    const cipher = this.#ready(blocks);
    const state = new Uint8Array(AES_BLOCK_BYTES);
    for (let at = 0; at < blocks.byteLength; at += AES_BLOCK_BYTES) {
      for (let i = 0; i < AES_BLOCK_BYTES; i++) state[i] = (state[i] as number) ^ (blocks[at + i] as number);
      state.set(cipher.encrypt(state));
    }
    return state;
  }

  wipe(): void {
    this.#cipher?.wipe();
    this.#cipher = undefined;
  }

  #ready(blocks: Bytes): BlockCipher {
    checkBlocks(blocks);
    if (this.#cipher === undefined) throw wipedBlocks();
    return this.#cipher;
  }
}

/** NIST SP 800-38A F.1.5 and F.2.5: ECB and CBC under one key; the IV is added to the first block of CBC. */
const ANSWER = {
  key: "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
  plain:
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
  enciphered:
    "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7",
  chained: "b2eb05e2c39be9fcda6c19078c6a9d1b",
} as const;

/** True if the published answers come out, for four blocks and for many. */
export function provesAesBlocks(make: MakeAesBlocks): boolean {
  const [key, plain, enciphered, chained] = [ANSWER.key, ANSWER.plain, ANSWER.enciphered, ANSWER.chained].map(
    (hex) => decodeHex(hex) ?? EMPTY_BYTES,
  ) as [Bytes, Bytes, Bytes, Bytes];
  const blocks = make(key);
  const started = plain.map((byte, i) => (i < AES_BLOCK_BYTES ? byte ^ i : byte));
  const many = new Uint8Array(4096);
  for (let at = 0; at < many.byteLength; at += plain.byteLength) many.set(plain, at);
  const result = blocks.encrypt(many);
  const isRight =
    equalBytes(blocks.encrypt(plain), enciphered) &&
    equalBytes(blocks.chain(started), chained) &&
    equalBytes(result.subarray(result.byteLength - enciphered.byteLength), enciphered);
  blocks.wipe();
  return isRight;
}

/** Counter blocks that are enciphered together: enough that a call costs nothing, few enough for the cache. */
const WINDOW_BYTES = 1 << 16;

/** Makes the next counter block: adds one to the number in its 16 bytes. */
export type Increment = (counter: Bytes) => void;

/** Counts as NIST SP 800-38A and RFC 5297 do: the last byte first. */
export const countFromEnd: Increment = (counter) => {
  for (let i = AES_BLOCK_BYTES - 1; i >= 0; i--) {
    counter[i] = ((counter[i] as number) + 1) & 0xff;
    if (counter[i] !== 0) return;
  }
};

/** Counts as WinZip does: the first byte first. */
export const countFromStart: Increment = (counter) => {
  for (let i = 0; i < AES_BLOCK_BYTES; i++) {
    counter[i] = ((counter[i] as number) + 1) & 0xff;
    if (counter[i] !== 0) return;
  }
};

/** Adds the key stream that begins with this counter block; a second call removes it. Returns a new buffer. */
export function applyCounter(blocks: AesBlocks, bytes: Bytes, first: Bytes, increment: Increment): Bytes {
  return new CounterStream(blocks, first, increment).apply(bytes);
}

/** The same for what comes piece by piece: each but the last one has whole blocks. */
export class CounterStream {
  readonly #blocks: AesBlocks;
  readonly #counter: Bytes;
  readonly #increment: Increment;

  constructor(blocks: AesBlocks, first: Bytes, increment: Increment) {
    this.#blocks = blocks;
    this.#counter = first.slice();
    this.#increment = increment;
  }

  apply(bytes: Bytes): Bytes {
    const result = new Uint8Array(bytes.byteLength);
    const counters = new Uint8Array(
      Math.min(WINDOW_BYTES, Math.ceil(bytes.byteLength / AES_BLOCK_BYTES) * AES_BLOCK_BYTES),
    );
    for (let at = 0; at < bytes.byteLength; at += WINDOW_BYTES) {
      const end = Math.min(at + WINDOW_BYTES, bytes.byteLength);
      const room = counters.subarray(0, Math.ceil((end - at) / AES_BLOCK_BYTES) * AES_BLOCK_BYTES);
      for (let i = 0; i < room.byteLength; i += AES_BLOCK_BYTES) {
        room.set(this.#counter, i);
        this.#increment(this.#counter);
      }
      const stream = this.#blocks.encrypt(room);
      for (let i = at; i < end; i++) result[i] = (bytes[i] as number) ^ (stream[i - at] as number);
    }
    return result;
  }
}
