import type { Bytes } from "../../base/bytes.ts";

/** The reflected form of the polynomial of IEEE 802.3, 0x04c11db7. */
const POLYNOMIAL = 0xedb88320;

/** Slicing-by-16: looks up sixteen bytes in sixteen tables at once, instead of in one table sixteen times. */
const SLICES = 16;

let tables: Int32Array | undefined;

/** CRC-32 in plain TypeScript, for hosts without WebAssembly. `seed` is the CRC of the bytes before. */
export function crc32Javascript(bytes: Bytes, seed: number): number {
  tables ??= buildTables();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const aligned = bytes.byteLength - (bytes.byteLength % SLICES);
  let crc = updateBlocks(tables, view, aligned, ~seed);
  for (let i = aligned; i < bytes.byteLength; i++) {
    crc = (tables[(crc ^ view.getUint8(i)) & 0xff] as number) ^ (crc >>> 8);
  }
  return ~crc >>> 0;
}

function updateBlocks(t: Int32Array, view: DataView, byteLength: number, seed: number): number {
  let crc = seed;
  for (let i = 0; i < byteLength; i += SLICES) {
    const a = view.getInt32(i, true) ^ crc;
    const b = view.getInt32(i + 4, true);
    const c = view.getInt32(i + 8, true);
    const d = view.getInt32(i + 12, true);
    crc = lookup(t, a, 3072) ^ lookup(t, b, 2048) ^ lookup(t, c, 1024) ^ lookup(t, d, 0);
  }
  return crc;
}

/** One word through four tables. Its first byte is furthest from the end, so it uses the last of the four. */
function lookup(t: Int32Array, word: number, base: number): number {
  return (
    (t[base + 768 + (word & 0xff)] as number) ^
    (t[base + 512 + ((word >>> 8) & 0xff)] as number) ^
    (t[base + 256 + ((word >>> 16) & 0xff)] as number) ^
    (t[base + (word >>> 24)] as number)
  );
}

/** Table n holds the CRC of a byte followed by n zero bytes. */
function buildTables(): Int32Array {
  const built = new Int32Array(256 * SLICES);
  for (let value = 0; value < 256; value++) {
    let crc = value;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
    built[value] = crc;
  }
  for (let i = 256; i < built.length; i++) {
    const before = built[i - 256] as number;
    built[i] = (before >>> 8) ^ (built[before & 0xff] as number);
  }
  return built;
}

/**
 * The CRC-32 of two concatenated runs of bytes, from the CRC of each and the length of the second. For files whose
 * beginning is written last. Appending a zero byte is a linear map over 32 bits, so appending n of them is its n-th
 * power. Squaring finds that in as many steps as n has bits.
 */
export function crc32Combine(first: number, second: number, secondBytes: number): number {
  let crc = first;
  let map = byteMap();
  for (let left = secondBytes; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) crc = apply(map, crc);
    map = map.map((column) => apply(map, column));
  }
  return (crc ^ second) >>> 0;
}

/** What one zero byte does to each bit of a CRC. */
function byteMap(): readonly number[] {
  return Array.from({ length: 32 }, (_, bit) => {
    let crc = (1 << bit) >>> 0;
    for (let step = 0; step < 8; step++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
    return crc >>> 0;
  });
}

function apply(map: readonly number[], crc: number): number {
  let result = 0;
  for (let bit = 0; bit < 32; bit++) if ((crc >>> bit) & 1) result ^= map[bit] as number;
  return result >>> 0;
}
