import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { Engine } from "../engine.ts";

/** What HMAC pads the key to: a block of SHA-256. */
const BLOCK_BYTES = 64;

/** HMAC-SHA-256 (RFC 2104) of the pieces, one after the other. Wipes nothing: the caller owns `key`. */
export async function hmacSha256(engine: Pick<Engine, "hasher">, key: Bytes, pieces: Iterable<Bytes>): Promise<Bytes> {
  const short = key.byteLength > BLOCK_BYTES ? await hash(engine, [key]) : key;
  const pad = (value: number): Bytes => {
    const block = new Uint8Array(BLOCK_BYTES).fill(value);
    short.forEach((byte, i) => {
      block[i] = byte ^ value;
    });
    return block;
  };
  const inner = await hash(engine, [pad(0x36), ...pieces]);
  return hash(engine, [pad(0x5c), inner]);
}

export interface HkdfOptions {
  readonly salt: Bytes;
  readonly info: Bytes;
  /** At most 255 · 32. */
  readonly byteLength: number;
}

/** HKDF with SHA-256 (RFC 5869): keys of any number from one secret. */
export async function hkdfSha256(
  engine: Pick<Engine, "hasher">,
  secret: Bytes,
  { salt, info, byteLength }: HkdfOptions,
): Promise<Bytes> {
  const pseudorandom = await hmacSha256(engine, salt, [secret]);
  const blocks: Bytes[] = [];
  let last: Bytes = new Uint8Array(0);
  for (let i = 1; blocks.length * 32 < byteLength; i++) {
    last = await hmacSha256(engine, pseudorandom, [last, info, Uint8Array.of(i)]);
    blocks.push(last);
  }
  return concatBytes(blocks).slice(0, byteLength);
}

/** Equal or not, in a time that does not tell how much of it is. */
export function equalSecrets(a: Bytes, b: Bytes): boolean {
  if (a.byteLength !== b.byteLength) return false;
  let difference = 0;
  for (let i = 0; i < a.byteLength; i++) difference |= (a[i] as number) ^ (b[i] as number);
  return difference === 0;
}

async function hash(engine: Pick<Engine, "hasher">, pieces: Iterable<Bytes>): Promise<Bytes> {
  const hasher = await engine.hasher("sha256");
  for (const piece of pieces) hasher.update(piece);
  return hasher.digest();
}
