import type { Bytes } from "./bytes.ts";

/** Shorter blocks lie anywhere in a page. */
const LONG_BYTES = 64 << 10;

/** The C library begins long blocks 16 bytes into a page: with these it is the middle of one, a multiple of 32. */
const SHIFT_BYTES = 2064;

/**
 * Memory that files are read into again and again. Where memory begins up to 31 bytes further into its page than what is
 * copied there, processors of AMD take four times as long for the copy: they hold the two for overlapping. Files are read
 * from the beginning of a page, mostly, and long blocks begin 16 bytes behind one, which would make every read such a
 * copy: 2 GB/s instead of 8.
 */
export function readMemory(byteLength: number): Bytes {
  if (byteLength < LONG_BYTES) return new Uint8Array(byteLength);
  return new Uint8Array(new ArrayBuffer(byteLength + SHIFT_BYTES), SHIFT_BYTES, byteLength);
}
