// Sums of products over GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1, for Reed-Solomon codes. A product with a constant is
// two lookups of four bits, sixteen bytes at a time.
//
// Memory: TABLES, INPUT, then one window for each output. The host grows it to `end()` before the first call.

/** With two outputs all windows stay in the nearest cache. */
const WINDOW: usize = 0x2000;
/** Most outputs of one pass. */
const MAX_OUTPUTS: usize = 16;

/** For each output, the products of its factor with 0 … 15 and with 16, 32 … 240. */
const TABLES: usize = memory.data(512, 16);

export function tables(): usize {
  return TABLES;
}

export function input(): usize {
  return (__heap_base + 63) & ~63;
}

export function outputs(): usize {
  return input() + WINDOW;
}

export function windowBytes(): usize {
  return WINDOW;
}

export function maxOutputs(): usize {
  return MAX_OUTPUTS;
}

export function end(): usize {
  return outputs() + MAX_OUTPUTS * WINDOW;
}

/** output i ← output i + factor i · INPUT, for `count` outputs. Writes up to 31 bytes past the end of each. */
export function multiplyAdd(byteLength: usize, count: usize): void {
  let i: usize = 0;
  for (; i + 2 <= count; i += 2) addTwo(byteLength, TABLES + 32 * i, outputs() + WINDOW * i);
  if (i < count) addOne(byteLength, TABLES + 32 * i, outputs() + WINDOW * i);
}

function addTwo(byteLength: usize, tables: usize, to: usize): void {
  const al = v128.load(tables), ah = v128.load(tables, 16), bl = v128.load(tables, 32), bh = v128.load(tables, 48);
  const nibble = i8x16.splat(15);
  let from = input();
  for (const last = from + byteLength; from < last; from += 32, to += 32) {
    const x = v128.load(from), y = v128.load(from, 16);
    const xl = v128.and(x, nibble), xh = v128.and(i16x8.shr_u(x, 4), nibble);
    const yl = v128.and(y, nibble), yh = v128.and(i16x8.shr_u(y, 4), nibble);
    v128.store(to, v128.xor(v128.load(to), v128.xor(pick(al, xl), pick(ah, xh))));
    v128.store(to, v128.xor(v128.load(to, 16), v128.xor(pick(al, yl), pick(ah, yh))), 16);
    v128.store(to, v128.xor(v128.load(to, WINDOW), v128.xor(pick(bl, xl), pick(bh, xh))), WINDOW);
    v128.store(to, v128.xor(v128.load(to, WINDOW + 16), v128.xor(pick(bl, yl), pick(bh, yh))), WINDOW + 16);
  }
}

function addOne(byteLength: usize, tables: usize, to: usize): void {
  const al = v128.load(tables), ah = v128.load(tables, 16);
  const nibble = i8x16.splat(15);
  let from = input();
  for (const last = from + byteLength; from < last; from += 32, to += 32) {
    const x = v128.load(from), y = v128.load(from, 16);
    const xl = v128.and(x, nibble), xh = v128.and(i16x8.shr_u(x, 4), nibble);
    const yl = v128.and(y, nibble), yh = v128.and(i16x8.shr_u(y, 4), nibble);
    v128.store(to, v128.xor(v128.load(to), v128.xor(pick(al, xl), pick(ah, xh))));
    v128.store(to, v128.xor(v128.load(to, 16), v128.xor(pick(al, yl), pick(ah, yh))), 16);
  }
}

/** All indexes are below sixteen, so with relaxed SIMD the host need not check for larger ones. */
@inline
function pick(table: v128, index: v128): v128 {
  return ASC_FEATURE_RELAXED_SIMD ? i8x16.relaxed_swizzle(table, index) : i8x16.swizzle(table, index);
}
