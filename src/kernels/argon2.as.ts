// Fills Argon2id's memory (RFC 9106 §3.4), one segment a call. The host does the steps before and after, and all of
// BLAKE2b.
//
// Memory: a few blocks of scratch, then BLOCKS, as many as the parameters say. The host grows it to `end()`, which
// counts no blocks, and then by the blocks.

const BLOCK: usize = 1024;
const SLICES: u32 = 4;
/** y for Argon2id. */
const TYPE: u64 = 2;
/** Pseudo-random numbers in a block of addresses. */
const ADDRESSES: u32 = 128;

const MIXED: usize = memory.data(1024, 16);
/** §3.4.1.2: the input of the numbers of a segment, and the numbers. */
const INPUT: usize = memory.data(1024, 16);
const NUMBERS: usize = memory.data(1024, 16);
const ZERO: usize = memory.data(1024, 16);

export function blocks(): usize {
  return (__heap_base + 1023) & ~1023;
}

export function end(): usize {
  return blocks();
}

/** Fills a segment of `segment` blocks. A lane has four segments. */
export function fillSegment(pass: u32, slice: u32, lane: u32, passes: u32, lanes: u32, segment: u32): void {
  const laneBlocks = SLICES * segment;
  const isIndependent = pass == 0 && slice < SLICES / 2;
  const start = blocks() + <usize>lane * <usize>laneBlocks * BLOCK;
  if (isIndependent) {
    memory.fill(INPUT, 0, BLOCK);
    store<u64>(INPUT, pass);
    store<u64>(INPUT, lane, 8);
    store<u64>(INPUT, slice, 16);
    store<u64>(INPUT, <u64>laneBlocks * lanes, 24);
    store<u64>(INPUT, passes, 32);
    store<u64>(INPUT, TYPE, 40);
  }
  for (let index: u32 = 0; index < segment; index++) {
    if (isIndependent && index % ADDRESSES == 0) nextNumbers();
    if (pass == 0 && slice == 0 && index < 2) continue; // the host makes these two from the password
    const at = slice * segment + index;
    const previous = start + <usize>(at == 0 ? laneBlocks - 1 : at - 1) * BLOCK;
    const number = load<u64>(isIndependent ? NUMBERS + ((<usize>(index % ADDRESSES)) << 3) : previous);
    const other = pass == 0 && slice == 0 ? lane : <u32>(number >> 32) % lanes;
    // §3.4.2: how many blocks there are to choose from, and which one is chosen.
    let area = pass == 0 ? slice * segment : laneBlocks - segment;
    if (other == lane) area += index - 1;
    else if (index == 0) area -= 1;
    const x = ((number & 0xffffffff) * (number & 0xffffffff)) >> 32;
    const back = area - 1 - <u32>((<u64>area * x) >> 32);
    const first = pass == 0 || slice == SLICES - 1 ? 0 : (slice + 1) * segment;
    const chosen = (first + back) % laneBlocks;
    const reference = blocks() + (<usize>other * <usize>laneBlocks + <usize>chosen) * BLOCK;
    compress(previous, reference, start + <usize>at * BLOCK, pass > 0);
  }
}

function nextNumbers(): void {
  store<u64>(INPUT, load<u64>(INPUT, 48) + 1, 48);
  compress(ZERO, INPUT, NUMBERS, false);
  compress(ZERO, NUMBERS, NUMBERS, false);
}

/** G of §3.5: to ← the compression of both. If `keeps`, adds it to what `to` holds. */
function compress(a: usize, b: usize, to: usize, keeps: bool): void {
  for (let i: usize = 0; i < BLOCK; i += 16) v128.store(MIXED + i, v128.xor(v128.load(a + i), v128.load(b + i)));
  if (keeps) {
    for (let i: usize = 0; i < BLOCK; i += 16) v128.store(to + i, v128.xor(v128.load(to + i), v128.load(MIXED + i)));
  } else memory.copy(to, MIXED, BLOCK);
  // Rows of sixteen words, then columns of eight pairs.
  for (let i: usize = 0; i < 8; i++) permute(MIXED + 128 * i, 16);
  for (let i: usize = 0; i < 8; i++) permute(MIXED + 16 * i, 128);
  for (let i: usize = 0; i < BLOCK; i += 16) v128.store(to + i, v128.xor(v128.load(to + i), v128.load(MIXED + i)));
}

/** P of §3.6 on eight pairs of words, `step` bytes apart. */
@inline
function permute(at: usize, step: usize): void {
  let a0 = v128.load(at), a1 = v128.load(at + step), b0 = v128.load(at + 2 * step), b1 = v128.load(at + 3 * step);
  let c0 = v128.load(at + 4 * step), c1 = v128.load(at + 5 * step), d0 = v128.load(at + 6 * step), d1 = v128.load(at + 7 * step);
  for (let half = 0; half < 2; half++) {
    a0 = sum(a0, b0); a1 = sum(a1, b1);
    d0 = turn32(v128.xor(d0, a0)); d1 = turn32(v128.xor(d1, a1));
    c0 = sum(c0, d0); c1 = sum(c1, d1);
    b0 = turn24(v128.xor(b0, c0)); b1 = turn24(v128.xor(b1, c1));
    a0 = sum(a0, b0); a1 = sum(a1, b1);
    d0 = turn16(v128.xor(d0, a0)); d1 = turn16(v128.xor(d1, a1));
    c0 = sum(c0, d0); c1 = sum(c1, d1);
    b0 = turn63(v128.xor(b0, c0)); b1 = turn63(v128.xor(b1, c1));
    // Columns become diagonals, and back: b moves by one word, c by two, d by three; the second time the other way.
    const c = c0;
    c0 = c1;
    c1 = c;
    if (half == 0) {
      const b = join(b0, b1), d = join(d1, d0);
      b1 = join(b1, b0);
      d1 = join(d0, d1);
      b0 = b;
      d0 = d;
    } else {
      const b = join(b1, b0), d = join(d0, d1);
      b1 = join(b0, b1);
      d1 = join(d1, d0);
      b0 = b;
      d0 = d;
    }
  }
  v128.store(at, a0);
  v128.store(at + step, a1);
  v128.store(at + 2 * step, b0);
  v128.store(at + 3 * step, b1);
  v128.store(at + 4 * step, c0);
  v128.store(at + 5 * step, c1);
  v128.store(at + 6 * step, d0);
  v128.store(at + 7 * step, d1);
}

/** BLAKE2b's sum with twice the product of the low halves added. */
@inline
function sum(x: v128, y: v128): v128 {
  const product = i64x2.extmul_low_i32x4_u(i32x4.shuffle(x, x, 0, 2, 0, 2), i32x4.shuffle(y, y, 0, 2, 0, 2));
  return i64x2.add(i64x2.add(x, y), i64x2.add(product, product));
}

/** The second word of one and the first of the other. */
@inline
function join(x: v128, y: v128): v128 {
  return i64x2.shuffle(x, y, 1, 2);
}

@inline
function turn32(x: v128): v128 {
  return i32x4.shuffle(x, x, 1, 0, 3, 2);
}

@inline
function turn24(x: v128): v128 {
  return i8x16.shuffle(x, x, 3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10);
}

@inline
function turn16(x: v128): v128 {
  return i8x16.shuffle(x, x, 2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9);
}

@inline
function turn63(x: v128): v128 {
  return v128.or(i64x2.shr_u(x, 63), i64x2.add(x, x));
}
