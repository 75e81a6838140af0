// Cuts a stream by its content: the hash takes a byte and is tested; a hit ends the chunk. The host keeps the state of
// every stream and copies it in and out.
//
// With "shift" the hash forgets a byte after 64 steps. So of the bytes before the shortest chunk only the last 64 need
// hashing, and a long run can be scanned at four places at once. If one of them hits, the run is scanned again in
// order. With "rotate" every byte since the last cut counts, so bytes are scanned one after the other.
//
// Memory: TABLE and the state, CUTS, INPUT. The host grows it to `end()` before the first call.

const WINDOW: usize = 0x20000;
/** How many bytes a shifted hash depends on. */
const MEMORY: usize = 64;
/** The length of the run at each of the four places. */
const RUN: usize = 2048;

const TABLE: usize = memory.data(2048, 16);
/** The hash, and then how many bytes the chunk has. */
const HASH: usize = memory.data(8, 8);
const LENGTH: usize = memory.data(4, 4);
/** The rule. */
const SHORTEST: usize = memory.data(4, 4);
const LONGEST: usize = memory.data(4, 4);
/** "shift": a hash below this hits. "rotate": a hash with none of these bits hits. */
const BOUND: usize = memory.data(8, 8);

export function table(): usize {
  return TABLE;
}

export function hash(): usize {
  return HASH;
}

export function length(): usize {
  return LENGTH;
}

export function shortest(): usize {
  return SHORTEST;
}

export function longest(): usize {
  return LONGEST;
}

export function bound(): usize {
  return BOUND;
}

/** Where cuts are written, as offsets into INPUT. No two are closer than MEMORY. */
export function cuts(): usize {
  return (__heap_base + 15) & ~15;
}

export function input(): usize {
  return cuts() + 4 * (WINDOW / MEMORY);
}

export function windowBytes(): usize {
  return WINDOW;
}

export function end(): usize {
  return input() + WINDOW;
}

@inline
function number(at: usize): u64 {
  return load<u64>(TABLE + ((<usize>load<u8>(at)) << 3));
}

/** Writes where chunks end among `byteLength` bytes of INPUT, and returns how many do. */
export function scanShifted(byteLength: usize): usize {
  const first = input();
  const last = first + byteLength;
  const bound = load<u64>(BOUND);
  const shortest = <usize>load<u32>(SHORTEST);
  const longest = <usize>load<u32>(LONGEST);
  let h = load<u64>(HASH);
  let n = <usize>load<u32>(LENGTH);
  let count: usize = 0;
  let at = first;
  while (at < last) {
    if (n + MEMORY < shortest) {
      const skipped = min<usize>(last - at, shortest - MEMORY - n);
      at += skipped;
      n += skipped;
      h = 0;
    }
    // Up to one byte before the shortest chunk: hash without testing.
    const quiet = min<usize>(last, at + (n + 1 < shortest ? shortest - 1 - n : 0));
    n += quiet - at;
    for (; at < quiet; at++) h = (h << 1) + number(at);
    const stop = min<usize>(last, at + (longest - n));
    let isCut = false;
    while (at < stop && !isCut) {
      if (at + 4 * RUN <= stop && !hitsFour(at, h, bound)) {
        at += 4 * RUN;
        n += 4 * RUN;
        h = remembered(at);
        continue;
      }
      const until = min<usize>(stop, at + 4 * RUN);
      const start = at;
      while (at < until) {
        h = (h << 1) + number(at++);
        if (h < bound) {
          isCut = true;
          break;
        }
      }
      n += at - start;
    }
    if (isCut || n == longest) {
      store<u32>(cuts() + 4 * count++, <u32>(at - first));
      h = 0;
      n = 0;
    }
  }
  store<u64>(HASH, h);
  store<u32>(LENGTH, <u32>n);
  return count;
}

/** The hash of the 64 bytes before `at`. */
@inline
function remembered(at: usize): u64 {
  let h: u64 = 0;
  for (let from = at - MEMORY; from < at; from++) h = (h << 1) + number(from);
  return h;
}

/** True if one of the four runs from `at` on has a hit. */
function hitsFour(at: usize, a: u64, bound: u64): bool {
  let b = remembered(at + RUN), c = remembered(at + 2 * RUN), d = remembered(at + 3 * RUN);
  for (let last = at + RUN; at < last; at += 4) {
    const wa = load<u32>(at), wb = load<u32>(at, RUN), wc = load<u32>(at, 2 * RUN), wd = load<u32>(at, 3 * RUN);
    a = (a << 1) + entry(wa << 3); if (a < bound) return true;
    b = (b << 1) + entry(wb << 3); if (b < bound) return true;
    c = (c << 1) + entry(wc << 3); if (c < bound) return true;
    d = (d << 1) + entry(wd << 3); if (d < bound) return true;
    a = (a << 1) + entry(wa >> 5); if (a < bound) return true;
    b = (b << 1) + entry(wb >> 5); if (b < bound) return true;
    c = (c << 1) + entry(wc >> 5); if (c < bound) return true;
    d = (d << 1) + entry(wd >> 5); if (d < bound) return true;
    a = (a << 1) + entry(wa >> 13); if (a < bound) return true;
    b = (b << 1) + entry(wb >> 13); if (b < bound) return true;
    c = (c << 1) + entry(wc >> 13); if (c < bound) return true;
    d = (d << 1) + entry(wd >> 13); if (d < bound) return true;
    a = (a << 1) + entry(wa >> 21); if (a < bound) return true;
    b = (b << 1) + entry(wb >> 21); if (b < bound) return true;
    c = (c << 1) + entry(wc >> 21); if (c < bound) return true;
    d = (d << 1) + entry(wd >> 21); if (d < bound) return true;
  }
  return false;
}

/** The table's number for the byte in bits 3 … 10 of `word`. */
@inline
function entry(word: u32): u64 {
  return load<u64>(TABLE + <usize>(word & 0x7f8));
}

/** Like scanShifted, for the other step. */
export function scanRotated(byteLength: usize): usize {
  const first = input();
  const last = first + byteLength;
  const bound = load<u64>(BOUND);
  const shortest = <usize>load<u32>(SHORTEST);
  const longest = <usize>load<u32>(LONGEST);
  let h = load<u64>(HASH);
  let n = <usize>load<u32>(LENGTH);
  let count: usize = 0;
  let at = first;
  while (at < last) {
    const quiet = min<usize>(last, at + (n + 1 < shortest ? shortest - 1 - n : 0));
    n += quiet - at;
    for (; at + 8 <= quiet; at += 8) {
      const word = load<u64>(at);
      h = rotl(h, 1) + entry((<u32>word) << 3);
      h = rotl(h, 1) + entry(<u32>(word >> 5));
      h = rotl(h, 1) + entry(<u32>(word >> 13));
      h = rotl(h, 1) + entry(<u32>(word >> 21));
      h = rotl(h, 1) + entry(<u32>(word >> 29));
      h = rotl(h, 1) + entry(<u32>(word >> 37));
      h = rotl(h, 1) + entry(<u32>(word >> 45));
      h = rotl(h, 1) + entry(<u32>(word >> 53));
    }
    for (; at < quiet; at++) h = rotl(h, 1) + number(at);
    const stop = min<usize>(last, at + (longest - n));
    const start = at;
    let isCut = false;
    while (at + 4 <= stop) {
      const word = load<u32>(at);
      h = rotl(h, 1) + entry(word << 3);
      at++;
      if ((h & bound) == 0) { isCut = true; break; }
      h = rotl(h, 1) + entry(word >> 5);
      at++;
      if ((h & bound) == 0) { isCut = true; break; }
      h = rotl(h, 1) + entry(word >> 13);
      at++;
      if ((h & bound) == 0) { isCut = true; break; }
      h = rotl(h, 1) + entry(word >> 21);
      at++;
      if ((h & bound) == 0) { isCut = true; break; }
    }
    while (at < stop && !isCut) {
      h = rotl(h, 1) + number(at++);
      if ((h & bound) == 0) isCut = true;
    }
    n += at - start;
    if (isCut || n == longest) {
      store<u32>(cuts() + 4 * count++, <u32>(at - first));
      h = 0;
      n = 0;
    }
  }
  store<u64>(HASH, h);
  store<u32>(LENGTH, <u32>n);
  return count;
}
