import { FormatError, LimitError, type Location } from "./errors.ts";

/**
 * The only arithmetic that file-supplied numbers may go through. Every result is an exact integer in
 * 0 … 2^53-1; anything else is refused where it arises instead of turning into a wrong offset later.
 */

export const MAX_OFFSET = Number.MAX_SAFE_INTEGER;

/** A u64 from its two 32-bit halves. Refuses values beyond 2^53-1, which no file reaches. */
export function toOffset(low: number, high: number, at: Location): number {
  // 2^53 - 1 has the high word 0x1fffff.
  if (high > 0x1fffff) throw beyond(`${(BigInt(high) << 32n) | BigInt(low)}`, at);
  return high * 0x1_0000_0000 + low;
}

export function checkedAdd(a: number, b: number, at: Location): number {
  const sum = a + b;
  if (!(sum <= MAX_OFFSET)) throw overflow(`${a} + ${b}`, at);
  return sum;
}

export function checkedMultiply(a: number, b: number, at: Location): number {
  const product = a * b;
  if (!(product <= MAX_OFFSET)) throw overflow(`${a} * ${b}`, at);
  return product;
}

/** The next multiple of `alignment` at or above `value`; `alignment` need not be a power of two. */
export function alignUp(value: number, alignment: number, at: Location = { source: "plan" }): number {
  const rest = value % alignment;
  return rest === 0 ? value : checkedAdd(value, alignment - rest, at);
}

export function isPowerOfTwo(value: number): boolean {
  return Number.isSafeInteger(value) && value > 0 && Number.isInteger(Math.log2(value));
}

function beyond(value: string, at: Location): LimitError {
  return new LimitError("limit/integer", `Cannot use ${value} as an offset or length: the highest is 2^53 - 1`, at, {
    hint: "The field is damaged, or the file was crafted to break readers",
  });
}

function overflow(expression: string, at: Location): FormatError {
  return new FormatError("format/overflow", `Cannot compute ${expression}: the result exceeds 2^53 - 1`, at, {
    hint: "The field is damaged, or the file was crafted to break readers",
  });
}
