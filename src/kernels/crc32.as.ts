// CRC-32 (IEEE 802.3, reflected), slicing-by-16: looks up sixteen bytes in sixteen tables at once. A third faster than
// the same loop in TypeScript, including the copy.
//
// Memory: `start()` fills TABLES; INPUT takes MAX_BYTES.

const MAX_BYTES: usize = 0x10000;
const SLICES: usize = 16;
/** Bytes of one table: 256 words. */
const TABLE: usize = 1024;
/** The reflected form of the polynomial 0x04c11db7. */
const POLYNOMIAL: u32 = 0xedb88320;

const TABLES: usize = memory.data(16384, 16);

export function input(): usize {
  return (__heap_base + 15) & ~15;
}

export function maxBytes(): usize {
  return MAX_BYTES;
}

/** How long the memory must be. */
export function end(): usize {
  return input() + MAX_BYTES;
}

/** Fills the tables: table n holds the CRC of a byte followed by n zero bytes. Call it once. */
export function start(): void {
  for (let value: u32 = 0; value < 256; value++) {
    let crc = value;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >> 1) ^ POLYNOMIAL : crc >> 1;
    store<u32>(TABLES + (<usize>value << 2), crc);
  }
  for (let at = TABLES + TABLE; at < TABLES + SLICES * TABLE; at += 4) {
    const before = load<u32>(at - TABLE);
    store<u32>(at, (before >> 8) ^ entry(0, before & 0xff));
  }
}

/** Continues `crc`, in its inverted form, over the first bytes of the input. */
export function update(byteLength: usize, crc: u32): u32 {
  let at = input();
  const stop = at + byteLength;
  for (; at + 16 <= stop; at += 16) {
    crc = slice(12, load<u32>(at) ^ crc) ^ slice(8, load<u32>(at, 4)) ^ slice(4, load<u32>(at, 8)) ^ slice(0, load<u32>(at, 12));
  }
  for (; at < stop; at++) crc = entry(0, (crc ^ load<u8>(at)) & 0xff) ^ (crc >> 8);
  return crc;
}

/** One word through four tables. Its first byte is furthest from the end, so it uses the last of the four. */
@inline
function slice(table: usize, word: u32): u32 {
  return entry(table + 3, word & 0xff) ^ entry(table + 2, (word >> 8) & 0xff) ^ entry(table + 1, (word >> 16) & 0xff) ^ entry(table, word >> 24);
}

@inline
function entry(table: usize, value: u32): u32 {
  return load<u32>(TABLES + table * TABLE + (<usize>value << 2));
}
