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
