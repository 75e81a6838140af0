/**
 * Sizes and times as people write them. `M` and `MB` are 10^6, as llama.cpp's gguf-split reads them, `MiB` is 2^20, and
 * a bare number is bytes.
 */

const DECIMAL = ["", "K", "M", "G", "T", "P"];

const SIZE = /^(\d+(?:\.\d+)?)\s*(?:([kmgtp])(i)?b?|b)?$/i;

/** True for text that has the form of a size. */
export function isSize(text: string): boolean {
  return SIZE.test(text.trim());
}

/** "300M", "64MiB", "1.5 GB", "4096" → bytes; undefined for anything else, and for more than 2^53 - 1. */
export function sizeOf(text: string): number | undefined {
  const match = SIZE.exec(text.trim());
  const bytes = match === null ? Number.NaN : scaled(match);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

function scaled([, digits, prefix, binary]: RegExpExecArray): number {
  const power = DECIMAL.indexOf((prefix ?? "").toUpperCase());
  return Math.floor(Number(digits) * (binary === undefined ? 1000 : 1024) ** power);
}

const MILLISECONDS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000 };

/** "30s", "500ms", "2m" → milliseconds. `bare` is the unit of a number without one. Undefined for anything else. */
export function millisecondsOf(text: string, bare: "ms" | "s"): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?$/.exec(text.trim());
  if (match === null) return undefined;
  const milliseconds = Number(match[1]) * (MILLISECONDS[match[2] ?? bare] ?? 1);
  return isTimerLength(milliseconds) ? Math.ceil(milliseconds) : undefined;
}

/** True for a length that a timer can have: setTimeout holds a 32-bit count of milliseconds. */
export function isTimerLength(milliseconds: number): boolean {
  return milliseconds > 0 && milliseconds < 2 ** 31;
}

/** A run of rows: either end may be missing, negative ends count from the last row. */
export interface RowRange {
  readonly start: number | undefined;
  readonly end: number | undefined;
}

/** "0:10", ":5", "-3:", and "7" for row 7 alone; undefined for what is none of these. */
export function rowsOf(text: string): RowRange | undefined {
  const match = /^(-?\d+)?(?:(:)(-?\d+)?)?$/.exec(text.trim());
  if (match === null || text.trim() === "") return undefined;
  const [, first, colon, last] = match;
  const start = first === undefined ? undefined : Number(first);
  if (colon === undefined && start !== undefined) return { start, end: start === -1 ? undefined : start + 1 };
  return { start, end: last === undefined ? undefined : Number(last) };
}

/** The meant rows for a tensor of `total` rows; `tensor.rows` refuses those outside. */
export function resolveRows(range: RowRange, total: number): readonly [start: number, end: number] {
  const from = (value: number | undefined, missing: number): number =>
    value === undefined ? missing : value < 0 ? value + total : value;
  return [from(range.start, 0), from(range.end, total)];
}
