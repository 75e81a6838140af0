import { type Bytes, concatBytes, EMPTY_BYTES } from "../../base/bytes.ts";
import type { Engine, Hasher } from "../engine.ts";
import { wipe } from "./secrets.ts";

/** HMAC pads the key to a block of the hash (FIPS 180-4 §1). */
const BLOCK_BYTES = { sha1: 64, sha256: 64, sha512: 128 } as const;

type HmacAlgorithm = keyof typeof BLOCK_BYTES;

/** HMAC-SHA-256 (RFC 2104) of the pieces, one after the other. The caller owns `key`. */
export function hmacSha256(engine: Pick<Engine, "hasher">, key: Bytes, pieces: Iterable<Bytes>): Promise<Bytes> {
  return hmac(engine, "sha256", { key, pieces });
}

/** HMAC-SHA-512 (RFC 2104) of the pieces, one after the other: 64 bytes. The caller owns `key`. */
export function hmacSha512(engine: Pick<Engine, "hasher">, key: Bytes, pieces: Iterable<Bytes>): Promise<Bytes> {
  return hmac(engine, "sha512", { key, pieces });
}

export interface HkdfOptions {
  /** No salt is the same as zeros (RFC 5869 §2.2). */
  readonly salt?: Bytes;
  readonly info: Bytes;
  /** At most 255 · 32. */
  readonly byteLength: number;
}

/** HKDF with SHA-256 (RFC 5869): any number of keys from one secret. The caller owns `secret` and the result. */
export async function hkdfSha256(
  engine: Pick<Engine, "hasher">,
  secret: Bytes,
  { salt = EMPTY_BYTES, info, byteLength }: HkdfOptions,
): Promise<Bytes> {
  const pseudorandom = await hmacSha256(engine, salt, [secret]);
  const blocks: Bytes[] = [];
  let last: Bytes = EMPTY_BYTES;
  for (let i = 1; blocks.length * 32 < byteLength; i++) {
    last = await hmacSha256(engine, pseudorandom, [last, info, Uint8Array.of(i)]);
    blocks.push(last);
  }
  const whole = concatBytes(blocks);
  const result = whole.slice(0, byteLength);
  wipe(pseudorandom, whole, ...blocks);
  return result;
}

/** Compares in constant time: the time does not show how many bytes are equal. */
export function equalSecrets(a: Bytes, b: Bytes): boolean {
  if (a.byteLength !== b.byteLength) return false;
  let difference = 0;
  for (let i = 0; i < a.byteLength; i++) difference |= (a[i] as number) ^ (b[i] as number);
  return difference === 0;
}

interface HmacInput {
  readonly key: Bytes;
  readonly pieces: Iterable<Bytes>;
}

async function hmac(
  engine: Pick<Engine, "hasher">,
  algorithm: HmacAlgorithm,
  { key, pieces }: HmacInput,
): Promise<Bytes> {
  const hasher = await createHmac(engine, algorithm, key);
  for (const piece of pieces) hasher.update(piece);
  return hasher.digest();
}

/** HMAC (RFC 2104) of a message that comes in pieces. The caller owns `key`; no part of it is kept after `digest`. */
export async function createHmac(
  engine: Pick<Engine, "hasher">,
  algorithm: HmacAlgorithm,
  key: Bytes,
): Promise<Hasher> {
  const blockBytes = BLOCK_BYTES[algorithm];
  const [shortener, inner, outer] = [
    await engine.hasher(algorithm),
    await engine.hasher(algorithm),
    await engine.hasher(algorithm),
  ];
  shortener.update(key);
  const short = key.byteLength > blockBytes ? shortener.digest() : key;
  const start = (hasher: Hasher, value: number): void => {
    const block = new Uint8Array(blockBytes).fill(value);
    short.forEach((byte, i) => {
      block[i] = byte ^ value;
    });
    hasher.update(block);
    wipe(block);
  };
  start(inner, 0x36);
  start(outer, 0x5c);
  return {
    update: (bytes) => inner.update(bytes),
    digest() {
      outer.update(inner.digest());
      return outer.digest();
    },
  };
}
