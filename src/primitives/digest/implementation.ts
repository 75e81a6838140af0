import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { decodeHex } from "../../base/text.ts";
import type { Hasher, HasherAlgorithm } from "../engine.ts";

/** One implementation of a digest: makes any number of independent hashers. */
export interface DigestImplementation {
  create(): Hasher;
}

/** A place for one or two chaining values inside a larger buffer. */
export interface CvSlot {
  readonly bytes: Bytes;
  readonly offset: number;
}

/** The inputs that all nodes of a tree share: the 32 bytes of the key (the IV in the plain hash) and flags. */
export interface Blake3Domain {
  readonly key: Bytes;
  readonly flags: number;
}

/** The compression part of BLAKE3. The tree above it is the same code for all implementations. */
export interface Blake3Core {
  /** Most chunks that `subtree` takes at once, a power of two. */
  readonly maxChunks: number;
  /**
   * Root of the complete subtree over `input`: a power of two of whole chunks. `counter` is the number of the first.
   */
  subtree(domain: Blake3Domain, input: Bytes, counter: number, out: CvSlot): void;
  /** One chunk of 0 to 1024 bytes; `flags` are added on its last block. */
  chunk(domain: Blake3Domain, input: Bytes, counter: number, flags: number, out: CvSlot): void;
  /** Replaces the two chaining values at `pair` with their parent, in the place of the left one. */
  parent(domain: Blake3Domain, pair: CvSlot, flags: number): void;
}

/** A digest under one key, of which it has a copy. */
export interface KeyedImplementation extends DigestImplementation {
  /** Erases the copy, and what hashing leaves of it in memory that lasts. */
  wipe(): void;
}

/** BLAKE3 also has a keyed mode: the same hash under a secret key of 32 bytes. */
export interface Blake3Implementation extends DigestImplementation {
  /** `key` is copied. */
  keyed(key: Bytes): KeyedImplementation;
  /** Present if nodes of the tree can be computed one by one, so that runs of an input can be hashed separately. */
  readonly tree?: Blake3Core;
}

/** Continues a CRC-32 over `bytes`; `seed` is the CRC of the bytes before, 0 at the start. */
export type Crc32Function = (bytes: Bytes, seed: number) => number;

/**
 * Digests of the bytes 0, 1, … 250, 0, 1, … of the given length: the input rule of the official BLAKE3 test vectors.
 * 8193 bytes are eight chunks and a bit, so lanes, merging and the odd tail all take part.
 */
const KNOWN_ANSWERS: Record<HasherAlgorithm, { readonly byteLength: number; readonly hex: string }> = {
  blake3: { byteLength: 8193, hex: "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b" },
  sha256: { byteLength: 8193, hex: "7e3691790cd64b19d4edb1a80e988214515abeb53aa0f34ffbfe4b4bf405d120" },
  sha1: { byteLength: 8193, hex: "c7fac2a2751ad1552813f366c3daef8eba512436" },
  sha512: {
    byteLength: 8193,
    hex: "825d72249c6adeff4ab01490f1dcf174bb1872bafe8deae51bb9f7ead43be084cd690306fe2b20fa7b791bf32efe814b8b06667df2eb6235ff2c1bbbfb9a0e4a",
  },
};

const PATTERN_BYTES = 251;

/** The bytes 0, 1, … 250, 0, 1, …: the input of the published BLAKE3 vectors. */
export function patternBytes(byteLength: number): Bytes {
  const bytes = new Uint8Array(byteLength);
  for (let i = 0; i < Math.min(byteLength, PATTERN_BYTES); i++) bytes[i] = i;
  // Fill by doubling, because this runs at every start.
  for (let i = PATTERN_BYTES; i < byteLength; i *= 2) bytes.copyWithin(i, 0, Math.min(i, byteLength - i));
  return bytes;
}

/** True if the implementation gives the known digest, in two pieces as well as in one. */
export function provesDigest(algorithm: HasherAlgorithm, implementation: DigestImplementation): boolean {
  const { byteLength, hex } = KNOWN_ANSWERS[algorithm];
  const input = patternBytes(byteLength);
  const expected = decodeHex(hex);
  return [byteLength, 1000].every((split) => {
    const hasher = implementation.create();
    hasher.update(input.subarray(0, split));
    hasher.update(input.subarray(split));
    return expected !== undefined && equalBytes(hasher.digest(), expected);
  });
}

/** The official BLAKE3 vectors' key, "whats the Elvish word for friend", and their keyed hash of 8193 bytes. */
const KEYED_ANSWER = {
  key: "77686174732074686520456c7669736820776f726420666f7220667269656e64",
  hex: "954a2a75420c8d6547e3ba5b98d963e6fa6491addc8c023189cc519821b4a1f5",
} as const;

/** Like provesDigest, and checks the keyed mode too. */
export function provesBlake3(implementation: Blake3Implementation): boolean {
  const [key, expected] = [decodeHex(KEYED_ANSWER.key), decodeHex(KEYED_ANSWER.hex)];
  if (key === undefined || expected === undefined || !provesDigest("blake3", implementation)) return false;
  const hasher = implementation.keyed(key).create();
  hasher.update(patternBytes(KNOWN_ANSWERS.blake3.byteLength));
  return equalBytes(hasher.digest(), expected);
}

/** True if the CRC-32 of "123456789" is the check value of the catalogue of CRCs, in one piece and in two. */
export function provesCrc32(crc32: Crc32Function): boolean {
  const digits = Uint8Array.from({ length: 9 }, (_, i) => 0x31 + i);
  const continued = crc32(digits.subarray(4), crc32(digits.subarray(0, 4), 0));
  return crc32(digits, 0) === 0xcbf43926 && continued === 0xcbf43926;
}
