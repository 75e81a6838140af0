// BLAKE3 for four chunks, or four parents, at a time: lane i of every vector belongs to input i. The host handles the
// tree above complete subtrees, and all keys and flags (src/primitives/digest/blake3.ts).
//
// Memory: KEY and MESSAGE are small static areas. The host copies chunks to `input()`; chaining values go to
// `output()`, after it. The host grows the memory to `end()` before the first call.

/** Most chunks one call takes; a power of two. At 128 KiB the host's copy stays in the nearest caches. */
const MAX_CHUNKS: usize = 128;
const CHUNK_BYTES: usize = 1024;
const BLOCK_BYTES: usize = 64;
const BLOCK_LENGTH: u32 = 64;
const CV_BYTES: usize = 32;

// BLAKE3 paper, table 3.
const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 2;
const PARENT: u32 = 4;

/** Eight little-endian words, written by the host before each call. */
const KEY: usize = memory.data(32, 16);
/** The sixteen words of four blocks, transposed: one vector for each word. */
const MESSAGE: usize = memory.data(256, 16);

/** Where the host puts chunks, or the two children of a parent. Four lanes may read past a shorter input. */
export function input(): usize {
  return (__heap_base + 15) & ~15;
}

export function key(): usize {
  return KEY;
}

/** Where results are: chaining values. The first one is that of a subtree. */
export function output(): usize {
  return input() + MAX_CHUNKS * CHUNK_BYTES + 4 * CHUNK_BYTES;
}

/** How long the memory must be. */
export function end(): usize {
  return output() + (MAX_CHUNKS + 4) * CV_BYTES;
}

export function maxChunks(): usize {
  return MAX_CHUNKS;
}

/** Root of the subtree over `count` whole chunks, a power of two. The counter is the number of the first. */
export function subtree(count: usize, counterLow: u32, counterHigh: u32, flags: u32): void {
  const from = input();
  const out = output();
  for (let i: usize = 0; i < count; i += 4) {
    // No carry into the high word: subtrees start at a multiple of their size.
    const first = counterLow + (i as u32);
    hash(
      from + i * CHUNK_BYTES, CHUNK_BYTES, 16, BLOCK_LENGTH,
      first, 1, counterHigh, flags, CHUNK_START, CHUNK_END, out + i * CV_BYTES,
    );
  }
  // Each pass halves the number of values, in place: four parents are read before they are written.
  for (let pairs = count >> 1; pairs > 0; pairs >>= 1) {
    for (let i: usize = 0; i < pairs; i += 4) {
      hash(out + i * BLOCK_BYTES, BLOCK_BYTES, 1, BLOCK_LENGTH, 0, 0, 0, flags | PARENT, 0, 0, out + i * CV_BYTES);
    }
  }
}

/** One chunk of 0 to 1024 bytes. All lanes compute it, which costs no more than one. */
export function chunk(byteLength: usize, counterLow: u32, counterHigh: u32, flags: u32, lastFlags: u32): void {
  const blocks: usize = byteLength == 0 ? 1 : (byteLength + BLOCK_BYTES - 1) / BLOCK_BYTES;
  const lastLength = (byteLength - (blocks - 1) * BLOCK_BYTES) as u32;
  memory.fill(input() + byteLength, 0, blocks * BLOCK_BYTES - byteLength);
  hash(input(), 0, blocks, lastLength, counterLow, 0, counterHigh, flags, CHUNK_START, CHUNK_END | lastFlags, output());
}

/** The parent of the two chaining values at the input. */
export function parent(flags: u32): void {
  hash(input(), 0, 1, BLOCK_LENGTH, 0, 0, 0, flags | PARENT, 0, 0, output());
}

/**
 * BLAKE3 paper §2.2 on four inputs `stride` bytes apart, each of `blocks` blocks. Writes four chaining values to `out`.
 */
function hash(
  from: usize, stride: usize, blocks: usize, lastLength: u32,
  counterLow: u32, counterStep: u32, counterHigh: u32,
  flags: u32, firstFlags: u32, lastFlags: u32, out: usize,
): void {
  let h0 = v128.load32_splat(KEY), h1 = v128.load32_splat(KEY, 4), h2 = v128.load32_splat(KEY, 8), h3 = v128.load32_splat(KEY, 12);
  let h4 = v128.load32_splat(KEY, 16), h5 = v128.load32_splat(KEY, 20), h6 = v128.load32_splat(KEY, 24), h7 = v128.load32_splat(KEY, 28);
  const low = add(i32x4.splat(counterLow), i32x4.mul(i32x4(0, 1, 2, 3), i32x4.splat(counterStep)));
  const high = i32x4.splat(counterHigh);
  let own = flags | firstFlags;
  for (let block: usize = 1; block <= blocks; block++) {
    const isLast = block == blocks;
    if (isLast) own |= lastFlags;
    for (let word: usize = 0; word < BLOCK_BYTES; word += 16) transpose(from + word, stride, MESSAGE + 4 * word);
    let v0 = h0, v1 = h1, v2 = h2, v3 = h3, v4 = h4, v5 = h5, v6 = h6, v7 = h7;
    // The first four words of the IV, BLAKE3 paper table 1.
    let v8 = i32x4.splat(0x6a09e667), v9 = i32x4.splat(0xbb67ae85), v10 = i32x4.splat(0x3c6ef372), v11 = i32x4.splat(0xa54ff53a);
    let v12 = low, v13 = high, v14 = i32x4.splat(isLast ? lastLength : BLOCK_LENGTH), v15 = i32x4.splat(own);
    // Round 1: columns, then diagonals.
    v0 = add(add(v0, v4), m(0)); v1 = add(add(v1, v5), m(2)); v2 = add(add(v2, v6), m(4)); v3 = add(add(v3, v7), m(6));
    v12 = xorRotate16(v12, v0); v13 = xorRotate16(v13, v1); v14 = xorRotate16(v14, v2); v15 = xorRotate16(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate12(v4, v8); v5 = xorRotate12(v5, v9); v6 = xorRotate12(v6, v10); v7 = xorRotate12(v7, v11);
    v0 = add(add(v0, v4), m(1)); v1 = add(add(v1, v5), m(3)); v2 = add(add(v2, v6), m(5)); v3 = add(add(v3, v7), m(7));
    v12 = xorRotate8(v12, v0); v13 = xorRotate8(v13, v1); v14 = xorRotate8(v14, v2); v15 = xorRotate8(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate7(v4, v8); v5 = xorRotate7(v5, v9); v6 = xorRotate7(v6, v10); v7 = xorRotate7(v7, v11);
    v0 = add(add(v0, v5), m(8)); v1 = add(add(v1, v6), m(10)); v2 = add(add(v2, v7), m(12)); v3 = add(add(v3, v4), m(14));
    v15 = xorRotate16(v15, v0); v12 = xorRotate16(v12, v1); v13 = xorRotate16(v13, v2); v14 = xorRotate16(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate12(v5, v10); v6 = xorRotate12(v6, v11); v7 = xorRotate12(v7, v8); v4 = xorRotate12(v4, v9);
    v0 = add(add(v0, v5), m(9)); v1 = add(add(v1, v6), m(11)); v2 = add(add(v2, v7), m(13)); v3 = add(add(v3, v4), m(15));
    v15 = xorRotate8(v15, v0); v12 = xorRotate8(v12, v1); v13 = xorRotate8(v13, v2); v14 = xorRotate8(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate7(v5, v10); v6 = xorRotate7(v6, v11); v7 = xorRotate7(v7, v8); v4 = xorRotate7(v4, v9);
    // Round 2: columns, then diagonals.
    v0 = add(add(v0, v4), m(2)); v1 = add(add(v1, v5), m(3)); v2 = add(add(v2, v6), m(7)); v3 = add(add(v3, v7), m(4));
    v12 = xorRotate16(v12, v0); v13 = xorRotate16(v13, v1); v14 = xorRotate16(v14, v2); v15 = xorRotate16(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate12(v4, v8); v5 = xorRotate12(v5, v9); v6 = xorRotate12(v6, v10); v7 = xorRotate12(v7, v11);
    v0 = add(add(v0, v4), m(6)); v1 = add(add(v1, v5), m(10)); v2 = add(add(v2, v6), m(0)); v3 = add(add(v3, v7), m(13));
    v12 = xorRotate8(v12, v0); v13 = xorRotate8(v13, v1); v14 = xorRotate8(v14, v2); v15 = xorRotate8(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate7(v4, v8); v5 = xorRotate7(v5, v9); v6 = xorRotate7(v6, v10); v7 = xorRotate7(v7, v11);
    v0 = add(add(v0, v5), m(1)); v1 = add(add(v1, v6), m(12)); v2 = add(add(v2, v7), m(9)); v3 = add(add(v3, v4), m(15));
    v15 = xorRotate16(v15, v0); v12 = xorRotate16(v12, v1); v13 = xorRotate16(v13, v2); v14 = xorRotate16(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate12(v5, v10); v6 = xorRotate12(v6, v11); v7 = xorRotate12(v7, v8); v4 = xorRotate12(v4, v9);
    v0 = add(add(v0, v5), m(11)); v1 = add(add(v1, v6), m(5)); v2 = add(add(v2, v7), m(14)); v3 = add(add(v3, v4), m(8));
    v15 = xorRotate8(v15, v0); v12 = xorRotate8(v12, v1); v13 = xorRotate8(v13, v2); v14 = xorRotate8(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate7(v5, v10); v6 = xorRotate7(v6, v11); v7 = xorRotate7(v7, v8); v4 = xorRotate7(v4, v9);
    // Round 3: columns, then diagonals.
    v0 = add(add(v0, v4), m(3)); v1 = add(add(v1, v5), m(10)); v2 = add(add(v2, v6), m(13)); v3 = add(add(v3, v7), m(7));
    v12 = xorRotate16(v12, v0); v13 = xorRotate16(v13, v1); v14 = xorRotate16(v14, v2); v15 = xorRotate16(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate12(v4, v8); v5 = xorRotate12(v5, v9); v6 = xorRotate12(v6, v10); v7 = xorRotate12(v7, v11);
    v0 = add(add(v0, v4), m(4)); v1 = add(add(v1, v5), m(12)); v2 = add(add(v2, v6), m(2)); v3 = add(add(v3, v7), m(14));
    v12 = xorRotate8(v12, v0); v13 = xorRotate8(v13, v1); v14 = xorRotate8(v14, v2); v15 = xorRotate8(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate7(v4, v8); v5 = xorRotate7(v5, v9); v6 = xorRotate7(v6, v10); v7 = xorRotate7(v7, v11);
    v0 = add(add(v0, v5), m(6)); v1 = add(add(v1, v6), m(9)); v2 = add(add(v2, v7), m(11)); v3 = add(add(v3, v4), m(8));
    v15 = xorRotate16(v15, v0); v12 = xorRotate16(v12, v1); v13 = xorRotate16(v13, v2); v14 = xorRotate16(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate12(v5, v10); v6 = xorRotate12(v6, v11); v7 = xorRotate12(v7, v8); v4 = xorRotate12(v4, v9);
    v0 = add(add(v0, v5), m(5)); v1 = add(add(v1, v6), m(0)); v2 = add(add(v2, v7), m(15)); v3 = add(add(v3, v4), m(1));
    v15 = xorRotate8(v15, v0); v12 = xorRotate8(v12, v1); v13 = xorRotate8(v13, v2); v14 = xorRotate8(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate7(v5, v10); v6 = xorRotate7(v6, v11); v7 = xorRotate7(v7, v8); v4 = xorRotate7(v4, v9);
    // Round 4: columns, then diagonals.
    v0 = add(add(v0, v4), m(10)); v1 = add(add(v1, v5), m(12)); v2 = add(add(v2, v6), m(14)); v3 = add(add(v3, v7), m(13));
    v12 = xorRotate16(v12, v0); v13 = xorRotate16(v13, v1); v14 = xorRotate16(v14, v2); v15 = xorRotate16(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate12(v4, v8); v5 = xorRotate12(v5, v9); v6 = xorRotate12(v6, v10); v7 = xorRotate12(v7, v11);
    v0 = add(add(v0, v4), m(7)); v1 = add(add(v1, v5), m(9)); v2 = add(add(v2, v6), m(3)); v3 = add(add(v3, v7), m(15));
    v12 = xorRotate8(v12, v0); v13 = xorRotate8(v13, v1); v14 = xorRotate8(v14, v2); v15 = xorRotate8(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate7(v4, v8); v5 = xorRotate7(v5, v9); v6 = xorRotate7(v6, v10); v7 = xorRotate7(v7, v11);
    v0 = add(add(v0, v5), m(4)); v1 = add(add(v1, v6), m(11)); v2 = add(add(v2, v7), m(5)); v3 = add(add(v3, v4), m(1));
    v15 = xorRotate16(v15, v0); v12 = xorRotate16(v12, v1); v13 = xorRotate16(v13, v2); v14 = xorRotate16(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate12(v5, v10); v6 = xorRotate12(v6, v11); v7 = xorRotate12(v7, v8); v4 = xorRotate12(v4, v9);
    v0 = add(add(v0, v5), m(0)); v1 = add(add(v1, v6), m(2)); v2 = add(add(v2, v7), m(8)); v3 = add(add(v3, v4), m(6));
    v15 = xorRotate8(v15, v0); v12 = xorRotate8(v12, v1); v13 = xorRotate8(v13, v2); v14 = xorRotate8(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate7(v5, v10); v6 = xorRotate7(v6, v11); v7 = xorRotate7(v7, v8); v4 = xorRotate7(v4, v9);
    // Round 5: columns, then diagonals.
    v0 = add(add(v0, v4), m(12)); v1 = add(add(v1, v5), m(9)); v2 = add(add(v2, v6), m(15)); v3 = add(add(v3, v7), m(14));
    v12 = xorRotate16(v12, v0); v13 = xorRotate16(v13, v1); v14 = xorRotate16(v14, v2); v15 = xorRotate16(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate12(v4, v8); v5 = xorRotate12(v5, v9); v6 = xorRotate12(v6, v10); v7 = xorRotate12(v7, v11);
    v0 = add(add(v0, v4), m(13)); v1 = add(add(v1, v5), m(11)); v2 = add(add(v2, v6), m(10)); v3 = add(add(v3, v7), m(8));
    v12 = xorRotate8(v12, v0); v13 = xorRotate8(v13, v1); v14 = xorRotate8(v14, v2); v15 = xorRotate8(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate7(v4, v8); v5 = xorRotate7(v5, v9); v6 = xorRotate7(v6, v10); v7 = xorRotate7(v7, v11);
    v0 = add(add(v0, v5), m(7)); v1 = add(add(v1, v6), m(5)); v2 = add(add(v2, v7), m(0)); v3 = add(add(v3, v4), m(6));
    v15 = xorRotate16(v15, v0); v12 = xorRotate16(v12, v1); v13 = xorRotate16(v13, v2); v14 = xorRotate16(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate12(v5, v10); v6 = xorRotate12(v6, v11); v7 = xorRotate12(v7, v8); v4 = xorRotate12(v4, v9);
    v0 = add(add(v0, v5), m(2)); v1 = add(add(v1, v6), m(3)); v2 = add(add(v2, v7), m(1)); v3 = add(add(v3, v4), m(4));
    v15 = xorRotate8(v15, v0); v12 = xorRotate8(v12, v1); v13 = xorRotate8(v13, v2); v14 = xorRotate8(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate7(v5, v10); v6 = xorRotate7(v6, v11); v7 = xorRotate7(v7, v8); v4 = xorRotate7(v4, v9);
    // Round 6: columns, then diagonals.
    v0 = add(add(v0, v4), m(9)); v1 = add(add(v1, v5), m(11)); v2 = add(add(v2, v6), m(8)); v3 = add(add(v3, v7), m(15));
    v12 = xorRotate16(v12, v0); v13 = xorRotate16(v13, v1); v14 = xorRotate16(v14, v2); v15 = xorRotate16(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate12(v4, v8); v5 = xorRotate12(v5, v9); v6 = xorRotate12(v6, v10); v7 = xorRotate12(v7, v11);
    v0 = add(add(v0, v4), m(14)); v1 = add(add(v1, v5), m(5)); v2 = add(add(v2, v6), m(12)); v3 = add(add(v3, v7), m(1));
    v12 = xorRotate8(v12, v0); v13 = xorRotate8(v13, v1); v14 = xorRotate8(v14, v2); v15 = xorRotate8(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate7(v4, v8); v5 = xorRotate7(v5, v9); v6 = xorRotate7(v6, v10); v7 = xorRotate7(v7, v11);
    v0 = add(add(v0, v5), m(13)); v1 = add(add(v1, v6), m(0)); v2 = add(add(v2, v7), m(2)); v3 = add(add(v3, v4), m(4));
    v15 = xorRotate16(v15, v0); v12 = xorRotate16(v12, v1); v13 = xorRotate16(v13, v2); v14 = xorRotate16(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate12(v5, v10); v6 = xorRotate12(v6, v11); v7 = xorRotate12(v7, v8); v4 = xorRotate12(v4, v9);
    v0 = add(add(v0, v5), m(3)); v1 = add(add(v1, v6), m(10)); v2 = add(add(v2, v7), m(6)); v3 = add(add(v3, v4), m(7));
    v15 = xorRotate8(v15, v0); v12 = xorRotate8(v12, v1); v13 = xorRotate8(v13, v2); v14 = xorRotate8(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate7(v5, v10); v6 = xorRotate7(v6, v11); v7 = xorRotate7(v7, v8); v4 = xorRotate7(v4, v9);
    // Round 7: columns, then diagonals.
    v0 = add(add(v0, v4), m(11)); v1 = add(add(v1, v5), m(5)); v2 = add(add(v2, v6), m(1)); v3 = add(add(v3, v7), m(8));
    v12 = xorRotate16(v12, v0); v13 = xorRotate16(v13, v1); v14 = xorRotate16(v14, v2); v15 = xorRotate16(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate12(v4, v8); v5 = xorRotate12(v5, v9); v6 = xorRotate12(v6, v10); v7 = xorRotate12(v7, v11);
    v0 = add(add(v0, v4), m(15)); v1 = add(add(v1, v5), m(0)); v2 = add(add(v2, v6), m(9)); v3 = add(add(v3, v7), m(6));
    v12 = xorRotate8(v12, v0); v13 = xorRotate8(v13, v1); v14 = xorRotate8(v14, v2); v15 = xorRotate8(v15, v3);
    v8 = add(v8, v12); v9 = add(v9, v13); v10 = add(v10, v14); v11 = add(v11, v15);
    v4 = xorRotate7(v4, v8); v5 = xorRotate7(v5, v9); v6 = xorRotate7(v6, v10); v7 = xorRotate7(v7, v11);
    v0 = add(add(v0, v5), m(14)); v1 = add(add(v1, v6), m(2)); v2 = add(add(v2, v7), m(3)); v3 = add(add(v3, v4), m(7));
    v15 = xorRotate16(v15, v0); v12 = xorRotate16(v12, v1); v13 = xorRotate16(v13, v2); v14 = xorRotate16(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate12(v5, v10); v6 = xorRotate12(v6, v11); v7 = xorRotate12(v7, v8); v4 = xorRotate12(v4, v9);
    v0 = add(add(v0, v5), m(10)); v1 = add(add(v1, v6), m(12)); v2 = add(add(v2, v7), m(4)); v3 = add(add(v3, v4), m(13));
    v15 = xorRotate8(v15, v0); v12 = xorRotate8(v12, v1); v13 = xorRotate8(v13, v2); v14 = xorRotate8(v14, v3);
    v10 = add(v10, v15); v11 = add(v11, v12); v8 = add(v8, v13); v9 = add(v9, v14);
    v5 = xorRotate7(v5, v10); v6 = xorRotate7(v6, v11); v7 = xorRotate7(v7, v8); v4 = xorRotate7(v4, v9);
    h0 = v128.xor(v0, v8); h1 = v128.xor(v1, v9); h2 = v128.xor(v2, v10); h3 = v128.xor(v3, v11);
    h4 = v128.xor(v4, v12); h5 = v128.xor(v5, v13); h6 = v128.xor(v6, v14); h7 = v128.xor(v7, v15);
    from += BLOCK_BYTES;
    own = flags;
  }
  v128.store(MESSAGE, h0); v128.store(MESSAGE, h1, 16); v128.store(MESSAGE, h2, 32); v128.store(MESSAGE, h3, 48);
  v128.store(MESSAGE, h4, 64); v128.store(MESSAGE, h5, 80); v128.store(MESSAGE, h6, 96); v128.store(MESSAGE, h7, 112);
  scatter(MESSAGE, out);
  scatter(MESSAGE + 64, out + 16);
}

/** Turns four words of four inputs into four vectors, one for each word. */
@inline
function transpose(from: usize, stride: usize, to: usize): void {
  const a = v128.load(from), b = v128.load(from + stride), c = v128.load(from + 2 * stride), d = v128.load(from + 3 * stride);
  const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5), cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
  const abHigh = v128.shuffle<i32>(a, b, 2, 6, 3, 7), cdHigh = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
  v128.store(to, v128.shuffle<i64>(ab, cd, 0, 2));
  v128.store(to, v128.shuffle<i64>(ab, cd, 1, 3), 16);
  v128.store(to, v128.shuffle<i64>(abHigh, cdHigh, 0, 2), 32);
  v128.store(to, v128.shuffle<i64>(abHigh, cdHigh, 1, 3), 48);
}

/** The inverse: four vectors become half a chaining value in each of four places. */
function scatter(from: usize, to: usize): void {
  const a = v128.load(from), b = v128.load(from, 16), c = v128.load(from, 32), d = v128.load(from, 48);
  const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5), cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
  const abHigh = v128.shuffle<i32>(a, b, 2, 6, 3, 7), cdHigh = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
  v128.store(to, v128.shuffle<i64>(ab, cd, 0, 2));
  v128.store(to, v128.shuffle<i64>(ab, cd, 1, 3), 32);
  v128.store(to, v128.shuffle<i64>(abHigh, cdHigh, 0, 2), 64);
  v128.store(to, v128.shuffle<i64>(abHigh, cdHigh, 1, 3), 96);
}

@inline
function add(a: v128, b: v128): v128 {
  return i32x4.add(a, b);
}

/** A word of the message. The load folds into the addition that uses it. */
@inline
function m(index: usize): v128 {
  return v128.load(MESSAGE + index * 16);
}

// Rotations by whole bytes are one shuffle; the others take two shifts.
@inline
function xorRotate16(a: v128, b: v128): v128 {
  const x = v128.xor(a, b);
  return v128.shuffle<u8>(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
}

@inline
function xorRotate12(a: v128, b: v128): v128 {
  const x = v128.xor(a, b);
  return v128.or(i32x4.shr_u(x, 12), i32x4.shl(x, 20));
}

@inline
function xorRotate8(a: v128, b: v128): v128 {
  const x = v128.xor(a, b);
  return v128.shuffle<u8>(x, x, 1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12);
}

@inline
function xorRotate7(a: v128, b: v128): v128 {
  const x = v128.xor(a, b);
  return v128.or(i32x4.shr_u(x, 7), i32x4.shl(x, 25));
}
