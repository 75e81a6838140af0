// Decodes and encodes LZ4 blocks (lz4_Block_format.md of the LZ4 project) of at most 64 KiB. Copies move 16 bytes at a
// time and may run past their end, so both buffers have unused room after them.
//
// Memory: TABLE of the encoder, INPUT, OUTPUT.

const MAX_RAW: usize = 0x10000;
/** LZ4_compressBound(64 KiB), rounded up. */
const MAX_BLOCK: usize = 0x10200;
/** How far copies may run past the end. */
const SLACK: usize = 64;
const MIN_MATCH: usize = 4;
/** The last bytes of a block are literals, and no match begins among the last twelve. */
const LAST_LITERALS: usize = 5;
const MATCH_LIMIT: usize = 12;
const HASH_BITS: u32 = 12;
/** Where each hash was last seen. Positions fit 16 bits, because a block has at most 64 KiB. */
const TABLE: usize = memory.data(8192, 16);

export function input(): usize {
  return (__heap_base + 15) & ~15;
}

export function output(): usize {
  return input() + MAX_BLOCK + SLACK;
}

export function maxRaw(): usize {
  return MAX_RAW;
}

export function maxBlock(): usize {
  return MAX_BLOCK;
}

export function end(): usize {
  return output() + MAX_BLOCK + SLACK;
}

/** Decodes the block in INPUT to OUTPUT. Returns its length, or -1 if it is malformed or longer than `capacity`. */
export function decode(byteLength: usize, capacity: usize): i32 {
  const start = output();
  const stop = start + capacity;
  let from = input();
  const last = from + byteLength;
  let to = start;
  let matched = false;
  while (from < last) {
    const token = <usize>load<u8>(from++);
    let literals = token >> 4;
    if (literals == 15) {
      let more: usize = 255;
      while (more == 255) {
        if (from >= last) return -1;
        more = <usize>load<u8>(from++);
        literals += more;
        if (literals > MAX_RAW) return -1;
      }
    }
    if (from + literals > last || to + literals > stop) return -1;
    for (let done: usize = 0; done < literals; done += 16) v128.store(to + done, v128.load(from + done));
    from += literals;
    to += literals;
    if (from == last) {
      return matched && literals < LAST_LITERALS ? -1 : <i32>(to - start);
    }
    if (from + 2 > last) return -1;
    const offset = <usize>load<u16>(from);
    from += 2;
    if (offset == 0 || offset > to - start) return -1;
    let length = (token & 15) + MIN_MATCH;
    if (length == 15 + MIN_MATCH) {
      let more: usize = 255;
      while (more == 255) {
        if (from >= last) return -1;
        more = <usize>load<u8>(from++);
        length += more;
        if (length > MAX_RAW) return -1;
      }
    }
    if (to + length > stop) return -1;
    copyMatch(to, offset, length);
    to += length;
    matched = true;
  }
  return -1;
}

/** Copies bytes from `offset` before. If that is less than the length, the bytes just written repeat. */
@inline
function copyMatch(to: usize, offset: usize, length: usize): void {
  const until = to + length;
  if (offset >= 16) {
    for (; to < until; to += 16) v128.store(to, v128.load(to - offset));
    return;
  }
  if (offset >= 8) {
    for (; to < until; to += 8) store<u64>(to, load<u64>(to - offset));
    return;
  }
  // The smallest multiple of the offset that is at least 8. After that many bytes, copy eight at once.
  let stride = offset;
  while (stride < 8) stride += offset;
  for (let done: usize = 0; done < stride; done++) store<u8>(to + done, load<u8>(to + done - offset));
  for (to += stride; to < until; to += 8) store<u64>(to, load<u64>(to - stride));
}

/** Encodes `byteLength` raw bytes of INPUT to OUTPUT. Returns the length of the block. */
export function encode(byteLength: usize): usize {
  const start = input();
  const last = start + byteLength;
  let to = output();
  let anchor = start;
  if (byteLength > MATCH_LIMIT) {
    memory.fill(TABLE, 0, 8192);
    const matchLimit = last - MATCH_LIMIT;
    let at = start + 1; // position 0 means "none" in the table
    let misses: usize = 1 << 6;
    while (at <= matchLimit) {
      const word = load<u32>(at);
      const slot = TABLE + (<usize>((word * 2654435761) >> (32 - HASH_BITS)) << 1);
      const seen = start + <usize>load<u16>(slot);
      store<u16>(slot, <u16>(at - start));
      if (seen == start || load<u32>(seen) != word) {
        // Skip faster and faster over input that does not compress.
        at += misses++ >> 6;
        continue;
      }
      misses = 1 << 6;
      let match = seen;
      while (at > anchor && match > start && load<u8>(at - 1) == load<u8>(match - 1)) {
        at--;
        match--;
      }
      let length = MIN_MATCH;
      const most = last - LAST_LITERALS - at;
      while (length + 8 <= most) {
        const difference = load<u64>(at + length) ^ load<u64>(match + length);
        if (difference != 0) {
          length += <usize>(ctz(difference) >> 3);
          break;
        }
        length += 8;
      }
      if (length + 8 > most) {
        while (length < most && load<u8>(at + length) == load<u8>(match + length)) length++;
      }
      if (length > most) length = most;
      to = sequence(to, anchor, at - anchor, at - match, length);
      at += length;
      anchor = at;
      if (at <= matchLimit) {
        const before = TABLE + (<usize>((load<u32>(at - 2) * 2654435761) >> (32 - HASH_BITS)) << 1);
        store<u16>(before, <u16>(at - 2 - start));
      }
    }
  }
  return literalsOnly(to, anchor, last - anchor) - output();
}

function sequence(to: usize, anchor: usize, literals: usize, offset: usize, length: usize): usize {
  const token = to++;
  to = lengthBytes(to, literals);
  for (let done: usize = 0; done < literals; done += 16) v128.store(to + done, v128.load(anchor + done));
  to += literals;
  store<u16>(to, <u16>offset);
  to = lengthBytes(to + 2, length - MIN_MATCH);
  store<u8>(token, <u8>((min<usize>(literals, 15) << 4) | min<usize>(length - MIN_MATCH, 15)));
  return to;
}

function literalsOnly(to: usize, anchor: usize, literals: usize): usize {
  store<u8>(to, <u8>(min<usize>(literals, 15) << 4));
  to = lengthBytes(to + 1, literals);
  memory.copy(to, anchor, literals);
  return to + literals;
}

/** The part of a length that does not fit the four bits of the token: bytes of 255 and a rest. */
@inline
function lengthBytes(to: usize, length: usize): usize {
  if (length < 15) return to;
  length -= 15;
  while (length >= 255) {
    store<u8>(to++, 255);
    length -= 255;
  }
  store<u8>(to++, <u8>length);
  return to;
}
