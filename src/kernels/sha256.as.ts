// SHA-256 over whole blocks (FIPS 180-4 §6.2.2). Swaps the bytes of four message words at a time, expands them and adds
// the round constants. The rounds depend on each other, so vectors cannot speed them up.
//
// Memory: STATE holds the eight words little-endian; the host writes and reads it. INPUT takes MAX_BLOCKS blocks.

const BLOCK_BYTES: usize = 64;
const MAX_BLOCKS: usize = 1024;

const STATE: usize = memory.data(32, 16);
/** The 64 words of the schedule, each with its round constant added. */
const WORDS: usize = memory.data(256, 16);

/** FIPS 180-4 §4.2.2. */
const K: usize = memory.data<u32>([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
], 16);

export function state(): usize {
  return STATE;
}

export function input(): usize {
  return (__heap_base + 15) & ~15;
}

export function maxBlocks(): usize {
  return MAX_BLOCKS;
}

/** How long the memory must be. */
export function end(): usize {
  return input() + MAX_BLOCKS * BLOCK_BYTES;
}

export function compress(blocks: usize): void {
  let h0 = load<u32>(STATE), h1 = load<u32>(STATE, 4), h2 = load<u32>(STATE, 8), h3 = load<u32>(STATE, 12);
  let h4 = load<u32>(STATE, 16), h5 = load<u32>(STATE, 20), h6 = load<u32>(STATE, 24), h7 = load<u32>(STATE, 28);
  let from = input();
  for (; blocks > 0; blocks--) {
    expand(from);
    let a = h0, b = h1, c = h2, d = h3, e = h4, f = h5, g = h6, h = h7;
    let t: u32;
    // After eight rounds every word is back in its own variable.
    for (let at = WORDS; at < WORDS + 256; at += 32) {
      t = h + sum1(e) + choose(e, f, g) + load<u32>(at);     d += t; h = t + sum0(a) + majority(a, b, c);
      t = g + sum1(d) + choose(d, e, f) + load<u32>(at, 4);  c += t; g = t + sum0(h) + majority(h, a, b);
      t = f + sum1(c) + choose(c, d, e) + load<u32>(at, 8);  b += t; f = t + sum0(g) + majority(g, h, a);
      t = e + sum1(b) + choose(b, c, d) + load<u32>(at, 12); a += t; e = t + sum0(f) + majority(f, g, h);
      t = d + sum1(a) + choose(a, b, c) + load<u32>(at, 16); h += t; d = t + sum0(e) + majority(e, f, g);
      t = c + sum1(h) + choose(h, a, b) + load<u32>(at, 20); g += t; c = t + sum0(d) + majority(d, e, f);
      t = b + sum1(g) + choose(g, h, a) + load<u32>(at, 24); f += t; b = t + sum0(c) + majority(c, d, e);
      t = a + sum1(f) + choose(f, g, h) + load<u32>(at, 28); e += t; a = t + sum0(b) + majority(b, c, d);
    }
    h0 += a; h1 += b; h2 += c; h3 += d; h4 += e; h5 += f; h6 += g; h7 += h;
    from += BLOCK_BYTES;
  }
  store<u32>(STATE, h0); store<u32>(STATE, h1, 4); store<u32>(STATE, h2, 8); store<u32>(STATE, h3, 12);
  store<u32>(STATE, h4, 16); store<u32>(STATE, h5, 20); store<u32>(STATE, h6, 24); store<u32>(STATE, h7, 28);
}

/** The message schedule of one block, four words a step. */
@inline
function expand(from: usize): void {
  let w0 = bigEndian(v128.load(from)), w1 = bigEndian(v128.load(from, 16));
  let w2 = bigEndian(v128.load(from, 32)), w3 = bigEndian(v128.load(from, 48));
  v128.store(WORDS, i32x4.add(w0, v128.load(K)));
  v128.store(WORDS, i32x4.add(w1, v128.load(K, 16)), 16);
  v128.store(WORDS, i32x4.add(w2, v128.load(K, 32)), 32);
  v128.store(WORDS, i32x4.add(w3, v128.load(K, 48)), 48);
  for (let at: usize = 64; at < 256; at += 64) {
    w0 = next(w0, w1, w2, w3);
    v128.store(WORDS + at, i32x4.add(w0, v128.load(K + at)));
    w1 = next(w1, w2, w3, w0);
    v128.store(WORDS + at, i32x4.add(w1, v128.load(K + at, 16)), 16);
    w2 = next(w2, w3, w0, w1);
    v128.store(WORDS + at, i32x4.add(w2, v128.load(K + at, 32)), 32);
    w3 = next(w3, w0, w1, w2);
    v128.store(WORDS + at, i32x4.add(w3, v128.load(K + at, 48)), 48);
  }
}

/** W[t…t+3] from the sixteen words before. The last two of the four need the first two, so sigma1 runs twice. */
@inline
function next(w0: v128, w1: v128, w2: v128, w3: v128): v128 {
  const back15 = v128.shuffle<i32>(w0, w1, 1, 2, 3, 4);
  const back7 = v128.shuffle<i32>(w2, w3, 1, 2, 3, 4);
  const sigma0 = v128.xor(v128.xor(turn(back15, 7), turn(back15, 18)), i32x4.shr_u(back15, 3));
  const partial = i32x4.add(i32x4.add(w0, sigma0), back7);
  // Words 14 and 15 in lanes 0 and 1; then the two new words in lanes 2 and 3.
  const zero = i32x4.splat(0);
  const first = i32x4.add(partial, sigma1(v128.shuffle<i32>(w3, zero, 2, 3, 4, 4)));
  return i32x4.add(first, sigma1(v128.shuffle<i32>(first, zero, 4, 4, 0, 1)));
}

@inline
function sigma1(x: v128): v128 {
  return v128.xor(v128.xor(turn(x, 17), turn(x, 19)), i32x4.shr_u(x, 10));
}

@inline
function turn(x: v128, count: i32): v128 {
  return v128.or(i32x4.shr_u(x, count), i32x4.shl(x, 32 - count));
}

@inline
function bigEndian(x: v128): v128 {
  return v128.shuffle<u8>(x, x, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
}

@inline
function sum0(x: u32): u32 {
  return rotr<u32>(x, 2) ^ rotr<u32>(x, 13) ^ rotr<u32>(x, 22);
}

@inline
function sum1(x: u32): u32 {
  return rotr<u32>(x, 6) ^ rotr<u32>(x, 11) ^ rotr<u32>(x, 25);
}

@inline
function choose(x: u32, y: u32, z: u32): u32 {
  return z ^ (x & (y ^ z));
}

@inline
function majority(x: u32, y: u32, z: u32): u32 {
  return (x & y) | (z & (x | y));
}
