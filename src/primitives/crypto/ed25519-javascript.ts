import { type Bytes, concatBytes, equalBytes } from "../../base/bytes.ts";
import { sha512Javascript } from "../digest/sha512-javascript.ts";
import { ED25519_PUBLIC_BYTES, ED25519_SIGNATURE_BYTES, type Ed25519 } from "./ed25519.ts";

/** RFC 8032 §5.1: the field's prime, the order of the base point, and d of the curve. */
const P = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const D = modulo(-121665n * inverse(121666n));
/** A square root of -1. */
const ROOT = power(2n, (P - 1n) / 4n);

/** Extended homogeneous coordinates: x = X/Z, y = Y/Z, x · y = T/Z (§5.1.4). */
interface Point {
  readonly x: bigint;
  readonly y: bigint;
  readonly z: bigint;
  readonly t: bigint;
}

const NEUTRAL: Point = { x: 0n, y: 1n, z: 1n, t: 0n };

/**
 * Ed25519 with big integers, for hosts whose WebCrypto lacks it. Its time depends on the key, so sign with it only if
 * no attacker can measure that time.
 */
export const ed25519Javascript: Ed25519 = {
  publicKey: async (seed) => encodePoint(multiply(basePoint(), expandSeed(seed).scalar)),
  async sign(seed, message) {
    const { scalar, prefix } = expandSeed(seed);
    const publicKey = encodePoint(multiply(basePoint(), scalar));
    const r = reduce(prefix, message);
    const commitment = encodePoint(multiply(basePoint(), r));
    const challenge = reduce(commitment, publicKey, message);
    return concatBytes([commitment, encodeInteger((r + challenge * scalar) % ORDER)]);
  },
  async verify(publicKey, message, signature) {
    if (publicKey.byteLength !== ED25519_PUBLIC_BYTES || signature.byteLength !== ED25519_SIGNATURE_BYTES) return false;
    const commitment = signature.slice(0, 32);
    const s = decodeInteger(signature.slice(32));
    const key = decodePoint(publicKey);
    if (key === undefined || s >= ORDER) return false;
    const challenge = reduce(commitment, publicKey, message);
    const negative = { ...key, x: modulo(-key.x), t: modulo(-key.t) };
    // R = s·B - k·A, compared as bytes: the equation without the cofactor, as in OpenSSL.
    const expected = add(multiply(basePoint(), s), multiply(negative, challenge));
    return equalBytes(encodePoint(expected), commitment);
  },
};

function expandSeed(seed: Bytes): { readonly scalar: bigint; readonly prefix: Bytes } {
  const hash = sha512(seed);
  const scalar = hash.slice(0, 32);
  // §5.1.5: clear the three lowest bits and the highest, set the second highest.
  scalar[0] = (scalar[0] as number) & 0xf8;
  scalar[31] = ((scalar[31] as number) & 0x7f) | 0x40;
  return { scalar: decodeInteger(scalar), prefix: hash.slice(32) };
}

let base: Point | undefined;

/** The point with y = 4/5 and an even x. */
function basePoint(): Point {
  base ??= decodePoint(encodeInteger(modulo(4n * inverse(5n)))) ?? NEUTRAL;
  return base;
}

/** §5.1.4. The formula is complete: it also works for equal points. */
function add(p: Point, q: Point): Point {
  const a = modulo((p.y - p.x) * (q.y - q.x));
  const b = modulo((p.y + p.x) * (q.y + q.x));
  const c = modulo(2n * p.t * q.t * D);
  const d = modulo(2n * p.z * q.z);
  const [e, f, g, h] = [b - a, d - c, d + c, b + a];
  return { x: modulo(e * f), y: modulo(g * h), z: modulo(f * g), t: modulo(e * h) };
}

function multiply(point: Point, scalar: bigint): Point {
  let sum = NEUTRAL;
  for (let q = point, rest = scalar; rest > 0n; rest >>= 1n, q = add(q, q)) if (rest & 1n) sum = add(sum, q);
  return sum;
}

function encodePoint({ x, y, z }: Point): Bytes {
  const scale = inverse(z);
  const bytes = encodeInteger(modulo(y * scale));
  if (modulo(x * scale) & 1n) bytes[31] = (bytes[31] as number) | 0x80;
  return bytes;
}

/** §5.1.3; undefined if there is no such point. */
function decodePoint(bytes: Bytes): Point | undefined {
  const coordinate = bytes.slice();
  const sign = BigInt((coordinate[31] as number) >> 7);
  coordinate[31] = (coordinate[31] as number) & 0x7f;
  const y = decodeInteger(coordinate);
  if (y >= P) return undefined;
  const u = modulo(y * y - 1n);
  const v = modulo(D * y * y + 1n);
  let x = modulo(u * power(v, 3n) * power(u * power(v, 7n), (P - 5n) / 8n));
  if (modulo(v * x * x) !== u) x = modulo(x * ROOT);
  if (modulo(v * x * x) !== u || (x === 0n && sign === 1n)) return undefined;
  if ((x & 1n) !== sign) x = modulo(-x);
  return { x, y, z: 1n, t: modulo(x * y) };
}

function reduce(...pieces: Bytes[]): bigint {
  return decodeInteger(sha512(concatBytes(pieces))) % ORDER;
}

function sha512(bytes: Bytes): Bytes {
  const hasher = sha512Javascript.create();
  hasher.update(bytes);
  return hasher.digest();
}

function modulo(value: bigint): bigint {
  const rest = value % P;
  return rest < 0n ? rest + P : rest;
}

function power(value: bigint, exponent: bigint): bigint {
  let result = 1n;
  for (let x = modulo(value), e = exponent; e > 0n; e >>= 1n, x = (x * x) % P) if (e & 1n) result = (result * x) % P;
  return result;
}

function inverse(value: bigint): bigint {
  return power(value, P - 2n);
}

/** Little-endian, 32 bytes. */
function encodeInteger(value: bigint): Bytes {
  const view = new DataView(new ArrayBuffer(32));
  for (let i = 0; i < 4; i++) view.setBigUint64(8 * i, BigInt.asUintN(64, value >> BigInt(64 * i)), true);
  return new Uint8Array(view.buffer);
}

function decodeInteger(bytes: Bytes): bigint {
  let value = 0n;
  for (let i = bytes.byteLength - 1; i >= 0; i--) value = (value << 8n) | BigInt(bytes[i] as number);
  return value;
}
