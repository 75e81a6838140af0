import { UsageError } from "../../src/base/errors.ts";
import { millisecondsOf, type RowRange, rowsOf, sizeOf } from "../../src/base/quantities.ts";
import { parityPercent } from "../../src/model/parity/avec.ts";
import { CACHE_BYTES } from "../../src/platform/node/cache/disk-cache.ts";
import type { Environment } from "../../src/platform/node/http/proxy-environment.ts";

/** Quantities as people type them. */

/** "300M", "64MiB", "1.5 GB", "4096" → bytes. */
export function parseSize(text: string, flag: string): number {
  const bytes = sizeOf(text);
  if (bytes !== undefined) return bytes;
  throw badValue(flag, text, "a size such as 4096, 300M, 64MiB or 1.5GB");
}

/** "30s", "500ms", "2m", or a bare number of seconds → milliseconds. */
export function parseDuration(text: string, flag: string): number {
  const milliseconds = millisecondsOf(text, "s");
  if (milliseconds !== undefined) return milliseconds;
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

/** "0:10", ":5", "-3:", and "7" for row 7 alone. */
export function parseRows(text: string, flag: string): RowRange {
  const rows = rowsOf(text);
  if (rows === undefined) throw badValue(flag, text, "rows such as 0:10, :5, -3: or 7");
  return rows;
}

export function badValue(flag: string, text: string, wanted: string): UsageError {
  return new UsageError("usage/flag-value", `Cannot use "${text}" for ${flag}: must be ${wanted}`, {
    source: "command line",
  });
}

/** The amount of parity, in every command that makes some. */
export const PARITY_FLAG = {
  kind: "text",
  value: "15%|LEVEL",
  suggests: ["low", "medium", "quartile", "high"],
} as const;

/** "15%", "15" or the name of a level → percent. */
export function parseParity(text: string): number {
  const percent = parityPercent(text);
  if (percent !== undefined) return percent;
  throw badValue("--parity", text, "5% to 50%, low, medium, quartile or high");
}

/** Bytes that the disk cache may hold: TARE_CACHE_SIZE, else 2 GB. 0 turns the cache off. */
export function cacheLimit(env: Environment): number {
  const text = env["TARE_CACHE_SIZE"];
  return text === undefined || text === "" ? CACHE_BYTES : parseSize(text, "TARE_CACHE_SIZE");
}
