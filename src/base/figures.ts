/** Numbers as people read them: three significant digits, decimal units, groups of three. */

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** 1_240_000_000 → "1.24 GB". */
export function formatSize(byteLength: number): string {
  return scaled(byteLength, 1000, UNITS);
}

/** For headlines: "1.24 GB (1.15 GiB)". Below a megabyte the two units hardly differ. */
export function formatSizeBoth(byteLength: number): string {
  if (byteLength < 1e6) return `${formatSize(byteLength)} (${formatInteger(byteLength)} bytes)`;
  return `${formatSize(byteLength)} (${scaled(byteLength, 1024, BINARY_UNITS)})`;
}

function scaled(value: number, base: number, units: readonly string[]): string {
  let scaledValue = value;
  let unit = 0;
  // 999.5 would show as "1000", so it goes to the next unit.
  while (scaledValue >= base - 0.5 && unit < units.length - 1) {
    scaledValue /= base;
    unit++;
  }
  return `${unit === 0 ? scaledValue : threeDigits(scaledValue)} ${units[unit]}`;
}

function threeDigits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** 128256 → "128,256". */
export function formatInteger(value: number | bigint): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Parameter counts as the field writes them: "1.24 B", "7.1 M"; exact below ten thousand. */
export function formatCount(count: number): string {
  if (count < 10_000) return formatInteger(count);
  for (const [unit, size] of [
    ["T", 1e12],
    ["B", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ] as const) {
    if (count >= size * 0.9995) return `${threeDigits(count / size)} ${unit}`;
  }
  return formatInteger(count);
}

/** "1 tensor", "310 tensors". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatInteger(count)} ${count === 1 ? one : many}`;
}

/** A share: "61.3 %"; tiny ones do not become zero. Of nothing, nothing is a share. */
export function formatShare(part: number, whole: number): string {
  const share = whole === 0 ? 0 : part / whole;
  if (share === 0) return "0 %";
  if (share < 0.0005) return "< 0.1 %";
  return `${(share * 100).toFixed(1)} %`;
}

/** "41 ms", "1.8 s", "2 min 5 s". */
export function formatTime(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 99_500) return `${(milliseconds / 1000).toFixed(milliseconds < 9950 ? 1 : 0)} s`;
  const seconds = Math.round(milliseconds / 1000);
  const hours = Math.floor(seconds / 3600);
  if (hours > 0) return `${hours} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** Bytes a second: "812 MB/s". */
export function formatRate(byteLength: number, milliseconds: number): string {
  return `${formatSize(Math.round((byteLength * 1000) / Math.max(milliseconds, 1)))}/s`;
}

/** Values of weights: four significant digits, never longer than eleven characters. */
export function formatValue(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value) || value === 0) return String(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return String(value);
  return size >= 1e-4 && size < 1e6 ? String(Number(value.toPrecision(4))) : value.toExponential(3);
}

/** A place in a file: "0x0000a4f0". */
export function formatOffset(offset: number): string {
  return `0x${offset.toString(16).padStart(8, "0")}`;
}

/** The milliseconds of the years 0000 to 9999: RFC 3339 has four digits for them. */
const FIRST_MS = -62_167_219_200_000;
const LAST_MS = 253_402_300_799_999;

/**
 * RFC 3339 with milliseconds; undefined for a time outside of the years 0000 to 9999. A file system can store such a
 * time, and `toISOString` throws a RangeError for it or writes a year with a sign.
 */
export function isoTime(ms: number): string | undefined {
  return ms >= FIRST_MS && ms <= LAST_MS ? new Date(ms).toISOString() : undefined;
}

/** As `isoTime`; a time outside of these years becomes the nearest one in them. */
export function nearestIsoTime(ms: number): string {
  return new Date(Math.min(Math.max(ms, FIRST_MS), LAST_MS)).toISOString();
}
