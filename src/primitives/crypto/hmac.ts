import { type Bytes, concatBytes, EMPTY_BYTES } from "../../base/bytes.ts";
import type { Engine } from "../engine.ts";
import { wipe } from "./secrets.ts";

/** What HMAC pads the key to: a block of the hash (FIPS 180-4 §1). */
const BLOCK_BYTES = { sha256: 64, sha512: 128 } as const;

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
  /** None is the same as zeros (RFC 5869 §2.2). */
  readonly salt?: Bytes;
  readonly info: Bytes;
  /** At most 255 · 32. */
  readonly byteLength: number;
}

/** HKDF with SHA-256 (RFC 5869): keys of any number from one secret. The caller owns `secret` and the result. */
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

/** Equal or not, in a time that does not tell how much of it is. */
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
  const blockBytes = BLOCK_BYTES[algorithm];
  const hash = async (parts: Iterable<Bytes>): Promise<Bytes> => {
    const hasher = await engine.hasher(algorithm);
    for (const part of parts) hasher.update(part);
    return hasher.digest();
  };
  const short = key.byteLength > blockBytes ? await hash([key]) : key;
  const pad = (value: number): Bytes => {
    const block = new Uint8Array(blockBytes).fill(value);
    short.forEach((byte, i) => {
      block[i] = byte ^ value;
    });
    return block;
  };
  const [innerPad, outerPad] = [pad(0x36), pad(0x5c)];
  const inner = await hash([innerPad, ...pieces]);
  const result = await hash([outerPad, inner]);
  wipe(innerPad, outerPad);
  return result;
}
