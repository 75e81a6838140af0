// AES-256 (FIPS 197). Enciphers eight blocks at a time without lookups: no address and no branch depends on a key or on
// text. Bit b of byte p of block k is in bit k of byte p of vector b. The box is the circuit of 113 gates by Boyar and
// Peralta ("A depth-16 circuit for the AES S-box", 2011), with their names for its gates. The constant 0x63 of the box
// passes through the linear steps unchanged, so it is part of the round keys here.
//
// Memory: small static areas, BLOCKS. The host grows it to `end()` before the first call.

const WINDOW: usize = 0x10000;
const ROUNDS: usize = 14;
/** A round key: eight vectors, all ones for bits that are set. */
const ROUND_BYTES: usize = 128;
/** Eight blocks. */
const BATCH: usize = 128;
const SCHEDULE_BYTES: usize = 15 * ROUND_BYTES;

/** 32 bytes from the host; `expandKey` overwrites them. */
const KEY: usize = memory.data(32, 16);
/** The round keys in the order of FIPS 197 §5.2, only while they are made. */
const WORDS: usize = memory.data(240, 16);
/** The round keys in the form that `encrypt` uses. The host may keep a copy and put it back. */
const SCHEDULE: usize = memory.data(1920, 16);
/** The eight vectors. */
const SLICE: usize = memory.data(128, 16);

export function key(): usize {
  return KEY;
}

export function schedule(): usize {
  return SCHEDULE;
}

export function scheduleBytes(): usize {
  return SCHEDULE_BYTES;
}

/** Where blocks are enciphered. Up to a multiple of eight, the blocks after them are overwritten. */
export function blocks(): usize {
  return (__heap_base + 15) & ~15;
}

export function windowBytes(): usize {
  return WINDOW;
}

export function end(): usize {
  return blocks() + WINDOW;
}

/** Overwrites keys and text. */
export function wipe(): void {
  memory.fill(KEY, 0, 32);
  memory.fill(WORDS, 0, 240);
  memory.fill(SCHEDULE, 0, SCHEDULE_BYTES);
  memory.fill(SLICE, 0, BATCH);
}

/** FIPS 197 §5.2; then spreads the bits over vectors. */
export function expandKey(): void {
  v128.store(WORDS, v128.load(KEY));
  v128.store(WORDS, v128.load(KEY, 16), 16);
  let constant: u32 = 1;
  for (let i: usize = 8; i < 60; i++) {
    let word = load<u32>(WORDS + 4 * i - 4);
    if ((i & 7) == 0) {
      word = substitute(rotr(word, 8)) ^ constant; // words are little-endian here
      constant <<= 1;
    } else if ((i & 7) == 4) word = substitute(word);
    store<u32>(WORDS + 4 * i, load<u32>(WORDS + 4 * i - 32) ^ word);
  }
  for (let round: usize = 0; round <= ROUNDS; round++) {
    let bytes = v128.load(WORDS + 16 * round);
    if (round > 0) bytes = v128.xor(bytes, i8x16.splat(0x63));
    for (let bit: usize = 0; bit < 8; bit++) {
      const isSet = i8x16.ne(v128.and(bytes, i8x16.splat(<i8>((<i32>1) << (<i32>bit)))), i8x16.splat(0));
      v128.store(SCHEDULE + ROUND_BYTES * round + 16 * bit, isSet);
    }
  }
  memory.fill(WORDS, 0, 240);
  memory.fill(KEY, 0, 32);
}

/** Four bytes through the box. */
function substitute(word: u32): u32 {
  memory.fill(SLICE, 0, BATCH);
  store<u32>(SLICE, word);
  turnBits(SLICE, SLICE);
  box();
  turnBits(SLICE, SLICE);
  return load<u32>(SLICE) ^ 0x63636363;
}

/** Enciphers `count` blocks in place. */
export function encrypt(count: usize): void {
  let at = blocks();
  for (const last = at + 16 * count; at < last; at += BATCH) {
    turnBits(at, SLICE);
    addKey(SCHEDULE);
    let keys = SCHEDULE + ROUND_BYTES;
    for (let round: usize = 1; round < ROUNDS; round++, keys += ROUND_BYTES) {
      box();
      mix(keys);
    }
    box();
    // The last round has no MixColumns.
    for (let k: usize = 0; k < BATCH; k += 16) v128.store(SLICE + k, shiftRows(v128.load(SLICE + k)));
    addKey(keys);
    turnBits(SLICE, at);
  }
}

@inline
function addKey(keys: usize): void {
  for (let k: usize = 0; k < BATCH; k += 16) {
    v128.store(SLICE + k, v128.xor(v128.load(SLICE + k), v128.load(keys + k)));
  }
}

/** Moves bit b of block k to bit k of vector b, for every byte. It is its own inverse. */
function turnBits(from: usize, to: usize): void {
  let a = v128.load(from), b = v128.load(from, 16), c = v128.load(from, 32), d = v128.load(from, 48);
  let e = v128.load(from, 64), f = v128.load(from, 80), g = v128.load(from, 96), h = v128.load(from, 112);
  let t: v128;
  const m1 = i8x16.splat(0x55), m2 = i8x16.splat(0x33), m4 = i8x16.splat(0x0f);
  t = v128.and(v128.xor(i16x8.shr_u(a, 1), b), m1); b = v128.xor(b, t); a = v128.xor(a, i16x8.shl(t, 1));
  t = v128.and(v128.xor(i16x8.shr_u(c, 1), d), m1); d = v128.xor(d, t); c = v128.xor(c, i16x8.shl(t, 1));
  t = v128.and(v128.xor(i16x8.shr_u(e, 1), f), m1); f = v128.xor(f, t); e = v128.xor(e, i16x8.shl(t, 1));
  t = v128.and(v128.xor(i16x8.shr_u(g, 1), h), m1); h = v128.xor(h, t); g = v128.xor(g, i16x8.shl(t, 1));
  t = v128.and(v128.xor(i16x8.shr_u(a, 2), c), m2); c = v128.xor(c, t); a = v128.xor(a, i16x8.shl(t, 2));
  t = v128.and(v128.xor(i16x8.shr_u(b, 2), d), m2); d = v128.xor(d, t); b = v128.xor(b, i16x8.shl(t, 2));
  t = v128.and(v128.xor(i16x8.shr_u(e, 2), g), m2); g = v128.xor(g, t); e = v128.xor(e, i16x8.shl(t, 2));
  t = v128.and(v128.xor(i16x8.shr_u(f, 2), h), m2); h = v128.xor(h, t); f = v128.xor(f, i16x8.shl(t, 2));
  t = v128.and(v128.xor(i16x8.shr_u(a, 4), e), m4); e = v128.xor(e, t); a = v128.xor(a, i16x8.shl(t, 4));
  t = v128.and(v128.xor(i16x8.shr_u(b, 4), f), m4); f = v128.xor(f, t); b = v128.xor(b, i16x8.shl(t, 4));
  t = v128.and(v128.xor(i16x8.shr_u(c, 4), g), m4); g = v128.xor(g, t); c = v128.xor(c, i16x8.shl(t, 4));
  t = v128.and(v128.xor(i16x8.shr_u(d, 4), h), m4); h = v128.xor(h, t); d = v128.xor(d, i16x8.shl(t, 4));
  v128.store(to, a);
  v128.store(to, b, 16);
  v128.store(to, c, 32);
  v128.store(to, d, 48);
  v128.store(to, e, 64);
  v128.store(to, f, 80);
  v128.store(to, g, 96);
  v128.store(to, h, 112);
}

/** FIPS 197 §5.1.2; byte r + 4c is row r of column c. */
@inline
function shiftRows(x: v128): v128 {
  return i8x16.shuffle(x, x, 0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11);
}

/** ShiftRows, then each row replaced with the row below. */
@inline
function shiftRowsBelow(x: v128): v128 {
  return i8x16.shuffle(x, x, 5, 10, 15, 0, 9, 14, 3, 4, 13, 2, 7, 8, 1, 6, 11, 12);
}

@inline
function twoBelow(x: v128): v128 {
  return i8x16.shuffle(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
}

/** ShiftRows, MixColumns and AddRoundKey: with b the row below, 2a + 3b + c + d = 2(a + b) + b + (c + d). */
function mix(keys: usize): void {
  const s0 = v128.load(SLICE), s1 = v128.load(SLICE, 16), s2 = v128.load(SLICE, 32), s3 = v128.load(SLICE, 48);
  const s4 = v128.load(SLICE, 64), s5 = v128.load(SLICE, 80), s6 = v128.load(SLICE, 96), s7 = v128.load(SLICE, 112);
  const b7 = shiftRowsBelow(s7), d7 = v128.xor(shiftRows(s7), b7);
  const b0 = shiftRowsBelow(s0), d0 = v128.xor(shiftRows(s0), b0);
  v128.store(SLICE, v128.xor(sum(b0, d0, v128.load(keys)), d7));
  const b1 = shiftRowsBelow(s1), d1 = v128.xor(shiftRows(s1), b1);
  v128.store(SLICE, v128.xor(sum(b1, d1, v128.load(keys, 16)), v128.xor(d0, d7)), 16);
  const b2 = shiftRowsBelow(s2), d2 = v128.xor(shiftRows(s2), b2);
  v128.store(SLICE, v128.xor(sum(b2, d2, v128.load(keys, 32)), d1), 32);
  const b3 = shiftRowsBelow(s3), d3 = v128.xor(shiftRows(s3), b3);
  v128.store(SLICE, v128.xor(sum(b3, d3, v128.load(keys, 48)), v128.xor(d2, d7)), 48);
  const b4 = shiftRowsBelow(s4), d4 = v128.xor(shiftRows(s4), b4);
  v128.store(SLICE, v128.xor(sum(b4, d4, v128.load(keys, 64)), v128.xor(d3, d7)), 64);
  const b5 = shiftRowsBelow(s5), d5 = v128.xor(shiftRows(s5), b5);
  v128.store(SLICE, v128.xor(sum(b5, d5, v128.load(keys, 80)), d4), 80);
  const b6 = shiftRowsBelow(s6), d6 = v128.xor(shiftRows(s6), b6);
  v128.store(SLICE, v128.xor(sum(b6, d6, v128.load(keys, 96)), d5), 96);
  v128.store(SLICE, v128.xor(sum(b7, d7, v128.load(keys, 112)), d6), 112);
}

@inline
function sum(below: v128, difference: v128, roundKey: v128): v128 {
  return v128.xor(v128.xor(below, roundKey), twoBelow(difference));
}

/** SubBytes without its constant, on all eight vectors. */
function box(): void {
  const x0 = v128.load(SLICE, 112), x1 = v128.load(SLICE, 96), x2 = v128.load(SLICE, 80), x3 = v128.load(SLICE, 64);
  const x4 = v128.load(SLICE, 48), x5 = v128.load(SLICE, 32), x6 = v128.load(SLICE, 16), x7 = v128.load(SLICE);
  const y14 = v128.xor(x3, x5), y13 = v128.xor(x0, x6), y9 = v128.xor(x0, x3), y8 = v128.xor(x0, x5);
  const t0 = v128.xor(x1, x2), y1 = v128.xor(t0, x7), y4 = v128.xor(y1, x3), y12 = v128.xor(y13, y14);
  const y2 = v128.xor(y1, x0), y5 = v128.xor(y1, x6), y3 = v128.xor(y5, y8), t1 = v128.xor(x4, y12);
  const y15 = v128.xor(t1, x5), y20 = v128.xor(t1, x1), y6 = v128.xor(y15, x7), y10 = v128.xor(y15, t0);
  const y11 = v128.xor(y20, y9), y7 = v128.xor(x7, y11), y17 = v128.xor(y10, y11), y19 = v128.xor(y10, y8);
  const y16 = v128.xor(t0, y11), y21 = v128.xor(y13, y16), y18 = v128.xor(x0, y16);
  const t2 = v128.and(y12, y15), t3 = v128.and(y3, y6), t4 = v128.xor(t3, t2), t5 = v128.and(y4, x7);
  const t6 = v128.xor(t5, t2), t7 = v128.and(y13, y16), t8 = v128.and(y5, y1), t9 = v128.xor(t8, t7);
  const t10 = v128.and(y2, y7), t11 = v128.xor(t10, t7), t12 = v128.and(y9, y11), t13 = v128.and(y14, y17);
  const t14 = v128.xor(t13, t12), t15 = v128.and(y8, y10), t16 = v128.xor(t15, t12), t17 = v128.xor(t4, t14);
  const t18 = v128.xor(t6, t16), t19 = v128.xor(t9, t14), t20 = v128.xor(t11, t16), t21 = v128.xor(t17, y20);
  const t22 = v128.xor(t18, y19), t23 = v128.xor(t19, y21), t24 = v128.xor(t20, y18);
  const t25 = v128.xor(t21, t22), t26 = v128.and(t21, t23), t27 = v128.xor(t24, t26), t28 = v128.and(t25, t27);
  const t29 = v128.xor(t28, t22), t30 = v128.xor(t23, t24), t31 = v128.xor(t22, t26), t32 = v128.and(t31, t30);
  const t33 = v128.xor(t32, t24), t34 = v128.xor(t23, t33), t35 = v128.xor(t27, t33), t36 = v128.and(t24, t35);
  const t37 = v128.xor(t36, t34), t38 = v128.xor(t27, t36), t39 = v128.and(t29, t38), t40 = v128.xor(t25, t39);
  const t41 = v128.xor(t40, t37), t42 = v128.xor(t29, t33), t43 = v128.xor(t29, t40), t44 = v128.xor(t33, t37);
  const t45 = v128.xor(t42, t41);
  const z0 = v128.and(t44, y15), z1 = v128.and(t37, y6), z2 = v128.and(t33, x7), z3 = v128.and(t43, y16);
  const z4 = v128.and(t40, y1), z5 = v128.and(t29, y7), z6 = v128.and(t42, y11), z7 = v128.and(t45, y17);
  const z8 = v128.and(t41, y10), z9 = v128.and(t44, y12), z10 = v128.and(t37, y3), z11 = v128.and(t33, y4);
  const z12 = v128.and(t43, y13), z13 = v128.and(t40, y5), z14 = v128.and(t29, y2), z15 = v128.and(t42, y9);
  const z16 = v128.and(t45, y14), z17 = v128.and(t41, y8);
  const t46 = v128.xor(z15, z16), t47 = v128.xor(z10, z11), t48 = v128.xor(z5, z13), t49 = v128.xor(z9, z10);
  const t50 = v128.xor(z2, z12), t51 = v128.xor(z2, z5), t52 = v128.xor(z7, z8), t53 = v128.xor(z0, z3);
  const t54 = v128.xor(z6, z7), t55 = v128.xor(z16, z17), t56 = v128.xor(z12, t48), t57 = v128.xor(t50, t53);
  const t58 = v128.xor(z4, t46), t59 = v128.xor(z3, t54), t60 = v128.xor(t46, t57), t61 = v128.xor(z14, t57);
  const t62 = v128.xor(t52, t58), t63 = v128.xor(t49, t58), t64 = v128.xor(z4, t59), t65 = v128.xor(t61, t62);
  const t66 = v128.xor(z1, t63), t67 = v128.xor(t64, t65), s3 = v128.xor(t53, t66);
  v128.store(SLICE, v128.xor(t59, t63), 112);
  v128.store(SLICE, v128.xor(t64, s3), 96);
  v128.store(SLICE, v128.xor(t55, t67), 80);
  v128.store(SLICE, s3, 64);
  v128.store(SLICE, v128.xor(t51, t66), 48);
  v128.store(SLICE, v128.xor(t47, t65), 32);
  v128.store(SLICE, v128.xor(t56, t62), 16);
  v128.store(SLICE, v128.xor(t48, t60));
}
