/**
 * The one byte type of the core. It names ArrayBuffer, not ArrayBufferLike, so that every view may be
 * transferred to a worker, handed to WebCrypto and written to a stream without a copy or a cast.
 */
export type Bytes = Uint8Array<ArrayBuffer>;

export const EMPTY_BYTES: Bytes = new Uint8Array(0);

/** One new buffer holding every piece in order. */
export function concatBytes(pieces: readonly Bytes[]): Bytes {
  let byteLength = 0;
  for (const piece of pieces) byteLength += piece.byteLength;
  const whole = new Uint8Array(byteLength);
  let position = 0;
  for (const piece of pieces) {
    whole.set(piece, position);
    position += piece.byteLength;
  }
  return whole;
}

export function equalBytes(a: Bytes, b: Bytes): boolean {
  if (a.byteLength !== b.byteLength) return false;
  for (let i = 0; i < a.byteLength; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** True where `bytes` starts with exactly these byte values. */
export function startsWith(bytes: Bytes, prefix: readonly number[], at = 0): boolean {
  if (bytes.byteLength < at + prefix.length) return false;
  return prefix.every((value, i) => bytes[at + i] === value);
}
