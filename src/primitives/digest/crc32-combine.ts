/** The reflected form of the polynomial of IEEE 802.3, 0x04c11db7. */
const POLYNOMIAL = 0xedb88320;

/**
 * The CRC-32 of two runs of bytes one after the other, from their own CRCs and the length of the second: for files
 * whose beginning is known last. Appending a byte is a linear map over 32 bits, so appending n of them is its n-th
 * power, which squaring finds in as many steps as n has bits.
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
