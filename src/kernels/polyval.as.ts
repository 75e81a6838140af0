// POLYVAL of RFC 8452 §3, sixteen blocks at a time, and the parts of counter mode around a block cipher. No address and
// no branch depends on a key or on text.
//
// The field is GF(2)[x] modulo f = x^128 + x^127 + x^126 + x^121 + 1; bit i of byte j is the coefficient of x^(8j+i).
//
// Multiplication by one element h is linear. Let p(a) be the coefficient of x^0 in a, and let g_i(c) = p(c / x^i). Then
// g_i(c · h) is the sum over j of c_j · p(x^(j-i) · h): a Toeplitz matrix made of 255 bits. Coordinates g are those of
// the polynomial, except for the last byte (see `settle`). A Toeplitz matrix of blocks (A B / C A) needs three
// products:
//     y0 = A(x0 + x1) + (A + B) x1        y1 = A(x0 + x1) + (A + C) x0
// Four such halvings leave 81 matrices of 8 by 8 bits. Each is two lookups of four bits, which swizzle does for sixteen
// blocks at once: byte k of all sixteen is in vector k. (Fan and Hasan, IEEE Trans. Computers 56(2), 2007.)
//
// Memory: small static areas, TEXT, STREAM. The host grows it to `end()` before the first call.

/** How much one call takes. Both areas and the host's copy stay in the second-level cache. */
const WINDOW: usize = 0x10000;
const BLOCK: usize = 16;
/** Blocks whose bytes are side by side. */
const LANES: usize = 16;
const GROUP: usize = 256;

/** The key from the host; `setKey` overwrites it. */
const KEY: usize = memory.data(16, 16);
/** The sum so far. */
const SUM: usize = memory.data(16, 16);
/** h / x^128, with which POLYVAL's product is that of the field. Then its 16th power. */
const H: usize = memory.data(16, 16);
const H16: usize = memory.data(16, 16);
/** The counter block that `counters` counts up from. */
const COUNTER: usize = memory.data(16, 16);
/** Two lookups of sixteen bytes for each of 81 matrices, in the order in which they are used. */
const TABLES: usize = memory.data(2592, 16);
const TABLE_BYTES: usize = 2592;
/** Byte k of sixteen sums, in vector k. */
const STATE: usize = memory.data(256, 16);
const HALF: usize = memory.data(128, 16);
const QUARTER: usize = memory.data(64, 16);
const MIDDLE: usize = memory.data(128, 16);
const MIDDLE4: usize = memory.data(64, 16);
const PRODUCT: usize = memory.data(256, 16);
const TURN: usize = memory.data(256, 16);

export function key(): usize {
  return KEY;
}

export function sum(): usize {
  return SUM;
}

export function counter(): usize {
  return COUNTER;
}

/** Where the host puts text to hash, encipher or decipher. */
export function text(): usize {
  return (__heap_base + 15) & ~15;
}

/** Where the key stream is made. */
export function stream(): usize {
  return text() + WINDOW;
}

export function windowBytes(): usize {
  return WINDOW;
}

export function end(): usize {
  return stream() + WINDOW;
}

/** Overwrites every key and sum. The host clears the texts. */
export function wipe(): void {
  memory.fill(KEY, 0, BLOCK);
  memory.fill(SUM, 0, BLOCK);
  memory.fill(H, 0, BLOCK);
  memory.fill(H16, 0, BLOCK);
  memory.fill(COUNTER, 0, BLOCK);
  memory.fill(TABLES, 0, TABLE_BYTES);
  memory.fill(STATE, 0, GROUP);
  memory.fill(HALF, 0, 128);
  memory.fill(QUARTER, 0, 64);
  memory.fill(MIDDLE, 0, 128);
  memory.fill(MIDDLE4, 0, 64);
  memory.fill(PRODUCT, 0, GROUP);
  memory.fill(TURN, 0, GROUP);
}

/** Takes the key at KEY, and resets the sum. */
export function setKey(): void {
  let low = load<u64>(KEY), high = load<u64>(KEY, 8);
  for (let i = 0; i < 128; i++) {
    // Divide by x. f has a constant term, so if x^0 is set, f is added first.
    const out = low & 1;
    low = (low >> 1) | (high << 63);
    high = (high >> 1) ^ (-out & 0xe100000000000000);
  }
  store<u64>(H, low);
  store<u64>(H, high, 8);
  store<u64>(H16, low);
  store<u64>(H16, high, 8);
  for (let i = 0; i < 4; i++) multiply(H16, load<u64>(H16), load<u64>(H16, 8));
  store<u64>(SUM, 0);
  store<u64>(SUM, 0, 8);
  makeTables();
}

/** at ← at · b. */
function multiply(at: usize, low: u64, high: u64): void {
  let a = load<u64>(at, 8), zl: u64 = 0, zh: u64 = 0;
  for (let i = 0; i < 128; i++) {
    if (i == 64) a = load<u64>(at);
    const carry = -(zh >> 63);
    zh = ((zh << 1) | (zl >> 63)) ^ (carry & 0xc200000000000000);
    zl = (zl << 1) ^ (carry & 1);
    const bit = -(a >> 63);
    zl ^= bit & low;
    zh ^= bit & high;
    a <<= 1;
  }
  store<u64>(at, zl);
  store<u64>(at, zh, 8);
}

/** The difference between coordinates g and those of the polynomial: g_k = c_k + g_(k-121) + g_(k-126) + g_(k-127). */
@inline
function settle(byte0: u64): u64 {
  return ((byte0 << 1) ^ (byte0 << 6) ^ (byte0 << 7)) & 0xff;
}

/** The 255 bits w, with w[i - j + 127] at row i and column j, and from them the lookups. */
function makeTables(): void {
  const low = load<u64>(H16);
  const high = load<u64>(H16, 8) ^ (settle(low & 0xff) << 56);
  // w[127 + k] = g_k. Below that, f gives w[t] = w[t+1] + w[t+2] + w[t+7] + w[t+128]: take the known terms first, then
  // divide by 1 + E + E^2 + E^7 (E shifts down), whose 128th power is 1, so that its 127th is the inverse.
  let l = (low >> 1) | (high << 63);
  let h = (high >> 1) ^ ((low & 1) << 62) ^ ((low & 3) << 61) ^ ((low & 0x7f) << 56);
  h &= 0x7fffffffffffffff;
  for (let k: u64 = 1; k < 128; k <<= 1) {
    let sl = l, sh = h;
    sl ^= down(l, h, k);
    sh ^= downHigh(h, k);
    sl ^= down(l, h, 2 * k);
    sh ^= downHigh(h, 2 * k);
    sl ^= down(l, h, 7 * k);
    sh ^= downHigh(h, 7 * k);
    l = sl;
    h = sh;
  }
  const w0 = l;
  const w1 = h | (low << 63);
  const w2 = (low >> 1) | (high << 63);
  const w3 = high >> 1;
  let at = TABLES;
  at = tables64(at, w1, w2);
  at = tables64(at, w0 ^ w1, w1 ^ w2);
  tables64(at, w1 ^ w2, w2 ^ w3);
}

@inline
function down(low: u64, high: u64, count: u64): u64 {
  if (count >= 128) return 0;
  if (count >= 64) return high >> (count - 64);
  return (low >> count) | (high << (64 - count));
}

@inline
function downHigh(high: u64, count: u64): u64 {
  return count >= 64 ? 0 : high >> count;
}

/** 64 by 64 from 127 bits. */
function tables64(at: usize, low: u64, high: u64): usize {
  const middle = (low >> 32) | (high << 32);
  at = tables32(at, middle);
  at = tables32(at, low ^ middle);
  return tables32(at, middle ^ high);
}

function tables32(at: usize, w: u64): usize {
  at = tables16(at, w >> 16);
  at = tables16(at, w ^ (w >> 16));
  return tables16(at, (w >> 16) ^ (w >> 32));
}

function tables16(at: usize, w: u64): usize {
  tables8(at, w >> 8);
  tables8(at + 32, w ^ (w >> 8));
  tables8(at + 64, (w >> 8) ^ (w >> 16));
  return at + 96;
}

/** Column j of the matrix is w[7-j … 14-j]; entry n of a lookup is the sum of the columns of n's bits. */
@inline
function tables8(at: usize, w: u64): void {
  lookup(at, w >> 7, w >> 6, w >> 5, w >> 4);
  lookup(at + 16, w >> 3, w >> 2, w >> 1, w);
}

@inline
function lookup(at: usize, c0: u64, c1: u64, c2: u64, c3: u64): void {
  let table = v128.and(i8x16.splat(<i8>c0), i8x16(0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1));
  table = v128.xor(table, v128.and(i8x16.splat(<i8>c1), i8x16(0, 0, -1, -1, 0, 0, -1, -1, 0, 0, -1, -1, 0, 0, -1, -1)));
  table = v128.xor(table, v128.and(i8x16.splat(<i8>c2), i8x16(0, 0, 0, 0, -1, -1, -1, -1, 0, 0, 0, 0, -1, -1, -1, -1)));
  table = v128.xor(table, v128.and(i8x16.splat(<i8>c3), i8x16(0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1)));
  v128.store(at, table);
}

/**
 * Adds `count` blocks of TEXT, from `offset` on, to the sum, one after the other: for blocks that do not fill a group.
 */
export function hashBlocks(offset: usize, count: usize): void {
  const low = load<u64>(H), high = load<u64>(H, 8);
  let from = text() + offset;
  for (let i: usize = 0; i < count; i++, from += BLOCK) {
    v128.store(SUM, v128.xor(v128.load(SUM), v128.load(from)));
    multiply(SUM, low, high);
  }
}

/** Begins sixteen sums side by side. Adds the sum so far to the first block of TEXT. */
export function beginGroups(): void {
  memory.fill(STATE, 0, GROUP);
  v128.store(text(), v128.xor(v128.load(SUM), v128.load(text())));
}

/** Adds `count` groups of sixteen blocks of TEXT. */
export function hashGroups(count: usize): void {
  let from = text();
  for (let i: usize = 0; i < count; i++) {
    // First, because it depends on no other result.
    turn(from, 0);
    turn(from, 16);
    turn(from, 32);
    turn(from, 48);
    multiplyState();
    absorb();
    from += GROUP;
  }
}

/** Combines the sixteen sums into one. */
export function endGroups(): void {
  const low = load<u64>(H), high = load<u64>(H, 8);
  store<u64>(SUM, 0);
  store<u64>(SUM, 0, 8);
  for (let lane: usize = 0; lane < LANES; lane++) {
    for (let k: usize = 0; k < BLOCK; k++) store<u8>(SUM + k, load<u8>(SUM + k) ^ load<u8>(STATE + 16 * k + lane));
    multiply(SUM, low, high);
  }
}

/** The product of STATE and h^16, in two parts that `absorb` adds: PRODUCT, and MIDDLE for both its halves. */
@inline
function multiplyState(): void {
  for (let k: usize = 0; k < 128; k += 16) {
    v128.store(HALF + k, v128.xor(v128.load(STATE + k), v128.load(STATE + k, 128)));
  }
  toeplitz8(HALF, TABLES, MIDDLE);
  toeplitz8(STATE + 128, TABLES + 864, PRODUCT);
  toeplitz8(STATE, TABLES + 1728, PRODUCT + 128);
}

@inline
function toeplitz8(x: usize, tables: usize, y: usize): void {
  for (let k: usize = 0; k < 64; k += 16) {
    v128.store(QUARTER + k, v128.xor(v128.load(x + k), v128.load(x + k, 64)));
  }
  toeplitz4(QUARTER, tables);
  add4(y, x + 64, tables + 288);
  add4(y + 64, x, tables + 576);
}

/** Writes the product to MIDDLE4. */
@inline
function toeplitz4(x: usize, t: usize): void {
  const a = v128.load(x), b = v128.load(x, 16), c = v128.load(x, 32), d = v128.load(x, 48);
  const al = low4(a), ah = high4(a), bl = low4(b), bh = high4(b);
  const cl = low4(c), ch = high4(c), dl = low4(d), dh = high4(d);
  const pl = v128.xor(al, cl), ph = v128.xor(ah, ch), ql = v128.xor(bl, dl), qh = v128.xor(bh, dh);
  const m = leaf(t, v128.xor(pl, ql), v128.xor(ph, qh));
  const m0 = v128.xor(m, leaf(t + 32, ql, qh));
  const m1 = v128.xor(m, leaf(t + 64, pl, ph));
  const n = leaf(t + 96, v128.xor(cl, dl), v128.xor(ch, dh));
  v128.store(MIDDLE4, v128.xor(m0, v128.xor(n, leaf(t + 128, dl, dh))));
  v128.store(MIDDLE4, v128.xor(m1, v128.xor(n, leaf(t + 160, cl, ch))), 16);
  const o = leaf(t + 192, v128.xor(al, bl), v128.xor(ah, bh));
  v128.store(MIDDLE4, v128.xor(m0, v128.xor(o, leaf(t + 224, bl, bh))), 32);
  v128.store(MIDDLE4, v128.xor(m1, v128.xor(o, leaf(t + 256, al, ah))), 48);
}

/** Writes the product plus MIDDLE4 to y. */
@inline
function add4(y: usize, x: usize, t: usize): void {
  const a = v128.load(x), b = v128.load(x, 16), c = v128.load(x, 32), d = v128.load(x, 48);
  const al = low4(a), ah = high4(a), bl = low4(b), bh = high4(b);
  const cl = low4(c), ch = high4(c), dl = low4(d), dh = high4(d);
  const pl = v128.xor(al, cl), ph = v128.xor(ah, ch), ql = v128.xor(bl, dl), qh = v128.xor(bh, dh);
  const m = leaf(t, v128.xor(pl, ql), v128.xor(ph, qh));
  const m0 = v128.xor(m, leaf(t + 32, ql, qh));
  const m1 = v128.xor(m, leaf(t + 64, pl, ph));
  const n = leaf(t + 96, v128.xor(cl, dl), v128.xor(ch, dh));
  v128.store(y, v128.xor(v128.xor(m0, v128.load(MIDDLE4)), v128.xor(n, leaf(t + 128, dl, dh))));
  v128.store(y, v128.xor(v128.xor(m1, v128.load(MIDDLE4, 16)), v128.xor(n, leaf(t + 160, cl, ch))), 16);
  const o = leaf(t + 192, v128.xor(al, bl), v128.xor(ah, bh));
  v128.store(y, v128.xor(v128.xor(m0, v128.load(MIDDLE4, 32)), v128.xor(o, leaf(t + 224, bl, bh))), 32);
  v128.store(y, v128.xor(v128.xor(m1, v128.load(MIDDLE4, 48)), v128.xor(o, leaf(t + 256, al, ah))), 48);
}

@inline
function low4(x: v128): v128 {
  return v128.and(x, i8x16.splat(15));
}

@inline
function high4(x: v128): v128 {
  return v128.and(i16x8.shr_u(x, 4), i8x16.splat(15));
}

@inline
function leaf(t: usize, low: v128, high: v128): v128 {
  return v128.xor(pick(v128.load(t), low), pick(v128.load(t, 16), high));
}

/** All indexes are below sixteen, so with relaxed SIMD the host need not check for larger ones. */
@inline
function pick(table: v128, index: v128): v128 {
  return ASC_FEATURE_RELAXED_SIMD ? i8x16.relaxed_swizzle(table, index) : i8x16.swizzle(table, index);
}

/** STATE ← the product + sixteen blocks, half transposed so far. Byte k of all blocks becomes vector k. */
@inline
function absorb(): void {
  // The last byte in polynomial coordinates. Shifts bytes as halves of 16-bit words.
  const first = v128.xor(v128.load(PRODUCT), v128.load(MIDDLE));
  let fix = i8x16.add(first, first);
  fix = v128.xor(fix, i16x8.shl(v128.and(first, i8x16.splat(3)), 6));
  fix = v128.xor(fix, i16x8.shl(v128.and(first, i8x16.splat(1)), 7));
  v128.store(PRODUCT, v128.xor(v128.load(PRODUCT, 240), fix), 240);
  place(0);
  place(16);
  place(32);
  place(48);
}

/** Two of the four interleavings that turn (transpose) a square of 16 by 16 bytes, for four of its rows. */
@inline
function turn(from: usize, row: usize): void {
  const a = v128.load(from + row), b = v128.load(from + row, 64), c = v128.load(from + row, 128), d = v128.load(from + row, 192);
  const m0 = zipLow(a, c), m1 = zipHigh(a, c), m8 = zipLow(b, d), m9 = zipHigh(b, d);
  v128.store(TURN + (row << 2), zipLow(m0, m8));
  v128.store(TURN + (row << 2), zipHigh(m0, m8), 16);
  v128.store(TURN + (row << 2), zipLow(m1, m9), 32);
  v128.store(TURN + (row << 2), zipHigh(m1, m9), 48);
}

/** The other two, and the sum. */
@inline
function place(row: usize): void {
  const a = v128.load(TURN + row), b = v128.load(TURN + row, 64), c = v128.load(TURN + row, 128), d = v128.load(TURN + row, 192);
  const m0 = zipLow(a, c), m1 = zipHigh(a, c), m8 = zipLow(b, d), m9 = zipHigh(b, d);
  const at = row << 2;
  const middle = MIDDLE + (at & 64);
  v128.store(STATE + at, v128.xor(zipLow(m0, m8), v128.xor(v128.load(PRODUCT + at), v128.load(middle))));
  v128.store(STATE + at, v128.xor(zipHigh(m0, m8), v128.xor(v128.load(PRODUCT + at, 16), v128.load(middle, 16))), 16);
  v128.store(STATE + at, v128.xor(zipLow(m1, m9), v128.xor(v128.load(PRODUCT + at, 32), v128.load(middle, 32))), 32);
  v128.store(STATE + at, v128.xor(zipHigh(m1, m9), v128.xor(v128.load(PRODUCT + at, 48), v128.load(middle, 48))), 48);
}

@inline
function zipLow(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

@inline
function zipHigh(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/** STREAM ← `count` counter blocks. The first 32 bits count up, and the next call continues from COUNTER. */
export function counters(count: usize): void {
  let block = v128.load(COUNTER);
  const one = i32x4(1, 0, 0, 0);
  for (let to = stream(), last = to + BLOCK * count; to < last; to += BLOCK) {
    v128.store(to, block);
    block = i32x4.add(block, one);
  }
  v128.store(COUNTER, block);
}

/** TEXT ← TEXT + STREAM. Writes up to 63 bytes past the end. */
export function add(byteLength: usize): void {
  for (let at = text(), last = text() + byteLength; at < last; at += 64) {
    v128.store(at, v128.xor(v128.load(at), v128.load(at, WINDOW)));
    v128.store(at, v128.xor(v128.load(at, 16), v128.load(at, WINDOW + 16)), 16);
    v128.store(at, v128.xor(v128.load(at, 32), v128.load(at, WINDOW + 32)), 32);
    v128.store(at, v128.xor(v128.load(at, 48), v128.load(at, WINDOW + 48)), 48);
  }
}
