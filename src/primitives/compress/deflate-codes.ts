/** The longest code (RFC 1951 §3.2.7). */
const MAX_CODE_BITS = 15;

/**
 * A prefix code as a lookup table. Its index is as many bits as the longest code has. An entry has the symbol in the
 * upper bits and the length of its code in the lower four; it is 0 if no code matches.
 */
export interface PrefixCode {
  readonly table: Uint16Array;
  readonly bits: number;
}

/**
 * Builds the code with these lengths (RFC 1951 §3.2.2). Undefined if they describe none: more codes than fit, or fewer.
 * A single code of one bit is allowed, as zlib allows it.
 */
export function buildCode(lengths: Uint8Array): PrefixCode | undefined {
  const counts = new Uint16Array(MAX_CODE_BITS + 1);
  for (const length of lengths) counts[length] = (counts[length] as number) + 1;
  counts[0] = 0;
  let bits = MAX_CODE_BITS;
  while (bits > 0 && counts[bits] === 0) bits--;
  const next = new Uint16Array(MAX_CODE_BITS + 2);
  let left = 1;
  for (let length = 1; length <= MAX_CODE_BITS; length++) {
    left = 2 * left - (counts[length] as number);
    if (left < 0) return undefined;
    next[length + 1] = ((next[length] as number) + (counts[length] as number)) << 1;
  }
  if (left > 0 && bits > 1) return undefined;
  const table = new Uint16Array(1 << bits);
  lengths.forEach((length, symbol) => {
    if (length === 0) return;
    const code = reverse(next[length] as number, length);
    next[length] = (next[length] as number) + 1;
    for (let i = code; i < table.length; i += 1 << length) table[i] = (symbol << 4) | length;
  });
  return { table, bits };
}

/** In the stream, codes have their first bit first, numbers their last. */
function reverse(code: number, length: number): number {
  let result = 0;
  for (let i = 0; i < length; i++) result = (result << 1) | ((code >>> i) & 1);
  return result;
}

/** RFC 1951 §3.2.6. */
export const FIXED_LITERALS: PrefixCode = fixed(288, (symbol) => {
  if (symbol < 144) return 8;
  if (symbol < 256) return 9;
  return symbol < 280 ? 7 : 8;
});
export const FIXED_DISTANCES: PrefixCode = fixed(32, () => 5);

function fixed(count: number, lengthOf: (symbol: number) => number): PrefixCode {
  const code = buildCode(Uint8Array.from({ length: count }, (_, symbol) => lengthOf(symbol)));
  return code ?? { table: new Uint16Array(1), bits: 0 };
}

/** RFC 1951 §3.2.5: the length for each symbol from 257 on, and how many extra bits follow it. */
export const LENGTH_BASE = Uint16Array.of(
  3,
  4,
  5,
  6,
  7,
  8,
  9,
  10,
  11,
  13,
  15,
  17,
  19,
  23,
  27,
  31,
  35,
  43,
  51,
  59,
  67,
  83,
  99,
  115,
  131,
  163,
  195,
  227,
  258,
);
export const LENGTH_EXTRA = Uint8Array.of(
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  1,
  1,
  1,
  1,
  2,
  2,
  2,
  2,
  3,
  3,
  3,
  3,
  4,
  4,
  4,
  4,
  5,
  5,
  5,
  5,
  0,
);
/** The same for distances. */
export const DISTANCE_EXTRA = Uint8Array.from({ length: 30 }, (_, i) => Math.max(0, (i >> 1) - 1));
export const DISTANCE_BASE = Uint16Array.from({ length: 30 }, (_, i) =>
  i < 2 ? i + 1 : 1 + ((2 + (i & 1)) << ((i >> 1) - 1)),
);
/** The order in which the lengths of the code for lengths come (RFC 1951 §3.2.7). */
export const CODE_LENGTH_ORDER = Uint8Array.of(16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15);
