/** Blue for negative, white for zero, orange for positive: distinguishable in both kinds of colour blindness. */
const NEGATIVE = [33, 102, 172] as const;
const ZERO = [247, 247, 247] as const;
const POSITIVE = [202, 90, 20] as const;
const NOT_A_NUMBER = [214, 0, 80] as const;

/**
 * Values beyond this many root mean squares get the strongest colour, so that a few outliers do not turn the rest
 * white.
 */
const FULL_AT = 2.5;

/** The magnitude that gets the strongest colour. */
export function scaleOf(values: Float32Array): number {
  let squares = 0;
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (!Number.isFinite(value)) continue;
    squares += value * value;
    count++;
  }
  return count === 0 || squares === 0 ? 1 : FULL_AT * Math.sqrt(squares / count);
}

/** Writes red, green, blue and alpha at `offset`. */
export function colorOf(value: number, scale: number, into: Uint8ClampedArray, offset: number): void {
  const share = Math.min(1, Math.abs(value) / scale);
  const end = value < 0 ? NEGATIVE : POSITIVE;
  for (let channel = 0; channel < 3; channel++) {
    const zero = ZERO[channel] as number;
    into[offset + channel] = Number.isFinite(value)
      ? zero + ((end[channel] as number) - zero) * share
      : (NOT_A_NUMBER[channel] as number);
  }
  into[offset + 3] = 255;
}
