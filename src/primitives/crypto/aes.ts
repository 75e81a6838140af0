import { type Bytes, EMPTY_BYTES, equalBytes } from "../../base/bytes.ts";
import { decodeHex } from "../../base/hex.ts";

/** AES-256-GCM appends a tag of this length. */
export const GCM_TAG_BYTES = 16;
/** The nonce that GCM is made for. */
export const GCM_NONCE_BYTES = 12;
/** Keys of AES-256. */
export const AES_KEY_BYTES = 32;
/** RFC 3394 puts a check value in front of what it wraps. */
export const KEY_WRAP_BYTES = 8;

/**
 * Whether so many bytes can be a wrapped key: whole words, and two of them beside the check value (RFC 3394 §2). Asked
 * first, since OpenSSL gives an empty key for no bytes.
 */
export function canBeWrapped(byteLength: number): boolean {
  return byteLength >= 3 * KEY_WRAP_BYTES && byteLength % KEY_WRAP_BYTES === 0;
}

/** A key, ready for many messages: NIST SP 800-38D with a 96-bit nonce and a 128-bit tag. */
export interface GcmKey {
  /** Ciphertext and tag. A nonce must never be used twice with one key. */
  seal(nonce: Bytes, plain: Bytes, associated: Bytes): Promise<Bytes>;
  /** The plain bytes; undefined where the tag does not match, and then nothing of them is given out. */
  open(nonce: Bytes, sealed: Bytes, associated: Bytes): Promise<Bytes | undefined>;
}

/** AES with keys of 256 bits. */
export interface Aes {
  /** `key` is copied: the caller may wipe it afterwards. */
  gcm(key: Bytes): Promise<GcmKey>;
  /** AES Key Wrap (RFC 3394) of a key of 16 bytes or more, a multiple of 8. */
  wrapKey(wrappingKey: Bytes, key: Bytes): Promise<Bytes>;
  /** Undefined where the wrapping key is another one or the bytes are damaged: the two cannot be told apart. */
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

/** True where the published answers come out, and a flipped bit is noticed. */
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
