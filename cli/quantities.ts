import { UsageError } from "../src/base/errors.ts";

/**
 * Quantities as people type them. `M` and `MB` are 10^6 as llama.cpp's gguf-split reads them, `MiB` is 2^20,
 * a bare number is bytes.
 */

const DECIMAL = ["", "K", "M", "G", "T", "P"];

const SIZE = /^(\d+(?:\.\d+)?)\s*(?:([kmgtp])(i)?b?|b)?$/i;

/** True for text that `parseSize` reads. */
export function isSize(text: string): boolean {
  return SIZE.test(text.trim());
}

/** "300M", "64MiB", "1.5 GB", "4096" → bytes. */
export function parseSize(text: string, flag: string): number {
  const match = SIZE.exec(text.trim());
  const bytes = match === null ? Number.NaN : scaled(match);
  if (Number.isSafeInteger(bytes)) return bytes;
  throw badValue(flag, text, "a size such as 4096, 300M, 64MiB or 1.5GB");
}

function scaled([, digits, prefix, binary]: RegExpExecArray): number {
  const power = DECIMAL.indexOf((prefix ?? "").toUpperCase());
  return Math.floor(Number(digits) * (binary === undefined ? 1000 : 1024) ** power);
}

const SECONDS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, min: 60, h: 3600 };

/** "30s", "500ms", "2m", or a bare number of seconds → milliseconds. */
export function parseDuration(text: string, flag: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?$/.exec(text.trim());
  const milliseconds = match === null ? Number.NaN : Number(match[1]) * (SECONDS[match[2] ?? "s"] ?? 1) * 1000;
  // setTimeout holds a 32-bit count of milliseconds.
  if (milliseconds > 0 && milliseconds < 2 ** 31) return Math.ceil(milliseconds);
  throw badValue(flag, text, "a time such as 30s, 500ms or 2m");
}

export interface NumberRange {
  readonly min?: number;
  readonly max?: number;
}

export function parseInteger(text: string, flag: string, range: NumberRange = {}): number {
  const { min = 0, max = Number.MAX_SAFE_INTEGER } = range;
  const value = /^-?\d+$/.test(text.trim()) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
  const bounds = max === Number.MAX_SAFE_INTEGER ? `a whole number >= ${min}` : `a whole number from ${min} to ${max}`;
  throw badValue(flag, text, bounds);
}

export function parseNumber(text: string, flag: string): number {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw badValue(flag, text, "a number >= 0");
}

/** A run of rows as typed: either end may be missing, negative ends count from the last row. */
export interface RowRange {
  readonly start: number | undefined;
  readonly end: number | undefined;
}

/** "0:10", ":5", "-3:", and "7" for row 7 alone. */
export function parseRows(text: string, flag: string): RowRange {
  const match = /^(-?\d+)?(?:(:)(-?\d+)?)?$/.exec(text.trim());
  if (match === null || text.trim() === "") throw badValue(flag, text, "rows such as 0:10, :5, -3: or 7");
  const [, first, colon, last] = match;
  const start = first === undefined ? undefined : Number(first);
  if (colon === undefined && start !== undefined) return { start, end: start === -1 ? undefined : start + 1 };
  return { start, end: last === undefined ? undefined : Number(last) };
}

/** The rows meant, for a tensor that has `total`; what lies outside is left for `tensor.rows` to refuse. */
export function resolveRows(range: RowRange, total: number): readonly [start: number, end: number] {
  const from = (value: number | undefined, missing: number): number =>
    value === undefined ? missing : value < 0 ? value + total : value;
  return [from(range.start, 0), from(range.end, total)];
}

export function badValue(flag: string, text: string, wanted: string): UsageError {
  return new UsageError("usage/flag-value", `Cannot use "${text}" for ${flag}: must be ${wanted}`, {
    source: "command line",
  });
}
