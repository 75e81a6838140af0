import type { BigIntStats } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { nearestIsoTime } from "../../../base/figures.ts";

/** Judges the conditions of a GET or HEAD in the order of RFC 9110 §13.2.2. `now` is in milliseconds. */
export function judgePreconditions(
  headers: IncomingHttpHeaders,
  version: Version,
  now: number,
): "proceed" | "not-modified" | "failed" {
  if (headers["if-match"] !== undefined) {
    if (!anyTag(headers["if-match"], version.etag, matchesStrongly)) return "failed";
  } else {
    const limit = readDate(headers["if-unmodified-since"], now);
    if (limit !== undefined && version.modified > limit) return "failed";
  }
  if (headers["if-none-match"] !== undefined) {
    return anyTag(headers["if-none-match"], version.etag, matchesWeakly) ? "not-modified" : "proceed";
  }
  const since = readDate(headers["if-modified-since"], now);
  return since !== undefined && version.modified <= since ? "not-modified" : "proceed";
}

/**
 * Whether Range counts: If-Range is absent, or names exactly this version with a strong validator (RFC 9110
 * §13.1.5). A date is strong once the second it names is over (§8.8.2.2).
 */
export function isRangeFresh(condition: string | undefined, version: Version, now: number): boolean {
  if (condition === undefined) return true;
  const text = condition.trim();
  if (text.startsWith('"') || text.startsWith("W/")) return matchesStrongly(text, version.etag);
  const date = readDate(text, now);
  return date === version.modified && version.dates !== "weak" && now / 1000 >= date + 1;
}

function anyTag(text: string, etag: string, matches: (a: string, b: string) => boolean): boolean {
  const tags = parseTags(text);
  return tags === "*" || tags.some((tag) => matches(tag, etag));
}

function readDate(text: string | undefined, now: number): number | undefined {
  return text === undefined ? undefined : parseHttpDate(text, now / 1000);
}

/** Which version of a file a reply is from. */
export interface Version {
  /** As sent: `"…"`, or `W/"…"` while it cannot promise identical bytes. */
  readonly etag: string;
  /** Whole seconds since 1970. */
  readonly modified: number;
  /** "weak" if another content may have the same time at any later moment, because the time came with the content. */
  readonly dates?: "weak" | undefined;
}

/**
 * A file that is written to twice within one tick of the file system's clock has the same time stamp both times. The
 * slowest common tick of Linux is 10 ms. Stamps in whole seconds come from file systems that store no more (FAT counts
 * in steps of two).
 */
const FINE_TICK_MS = 50;
const COARSE_TICK_MS = 2000;

/**
 * The version of an open file: by the digest that an index states for it, otherwise by length, modification time in
 * nanoseconds and inode. The tag is weak until the time stamp is old enough that another change must alter it.
 */
export function versionOf(stats: BigIntStats, digest: string | undefined, now: number): Version {
  const modified = Number(stats.mtimeNs / 1_000_000_000n);
  if (digest !== undefined) return { etag: `"sha256-${digest}"`, modified };
  const tag = [stats.size, stats.mtimeNs, stats.ino].map((value) => value.toString(16)).join("-");
  return { etag: isSettled(stats.mtimeNs, now) ? `"${tag}"` : `W/"${tag}"`, modified };
}

/** True if a file with this time stamp gets another one by any change from now on. */
export function isSettled(mtimeNs: bigint, now: number): boolean {
  const tick = mtimeNs % 1_000_000_000n === 0n ? COARSE_TICK_MS : FINE_TICK_MS;
  return now - Number(mtimeNs / 1_000_000n) >= tick;
}

/** True if both stats are of the same file with the same content, as far as the file system can tell. */
export function isSameVersion(a: BigIntStats, b: BigIntStats): boolean {
  return a.size === b.size && a.mtimeNs === b.mtimeNs && a.ino === b.ino && a.dev === b.dev;
}

/** RFC 9110 §8.8.3: etagc is any visible character but the quote. */
const TAGS = /(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"/g;

/** The tags of If-Match and If-None-Match, `"*"` for any. Anything that is not a tag is skipped. */
function parseTags(text: string): readonly string[] | "*" {
  return text.trim() === "*" ? "*" : (text.match(TAGS) ?? []);
}

/** Strong comparison: equal, and neither is weak (RFC 9110 §8.8.3.2). */
function matchesStrongly(a: string, b: string): boolean {
  return a === b && !a.startsWith("W/");
}

function matchesWeakly(a: string, b: string): boolean {
  return a.replace(/^W\//, "") === b.replace(/^W\//, "");
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The three spellings that RFC 9110 §5.6.7 requires a reader to accept: IMF-fixdate, RFC 850, asctime. */
const FIXDATE = /^[A-Z][a-z]{2}, (?<day>\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/;
const RFC_850 =
  /^[A-Z][a-z]{5,8}, (?<day>\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\d{2}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/;
const ASCTIME = /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d{2}:\d{2}:\d{2}) (?<year>\d{4})$/;

/** Whole seconds since 1970. Undefined if the text is not an HTTP date: such a header counts as absent. */
export function parseHttpDate(text: string, nowSeconds: number): number | undefined {
  const trimmed = text.trim();
  const groups = (FIXDATE.exec(trimmed) ?? RFC_850.exec(trimmed) ?? ASCTIME.exec(trimmed))?.groups;
  if (groups === undefined) return undefined;
  const { day = "", month = "", year = "", time = "" } = groups;
  const [hours = 0, minutes = 0, seconds = 0] = time.split(":").map(Number);
  const monthIndex = MONTHS.indexOf(month);
  const fullYear = year.length === 2 ? expandYear(Number(year), nowSeconds) : Number(year);
  // 60 is a leap second.
  if (monthIndex < 0 || hours > 23 || minutes > 59 || seconds > 60) return undefined;
  const milliseconds = Date.UTC(fullYear, monthIndex, Number(day), hours, minutes, seconds);
  const isRealDay = new Date(Date.UTC(fullYear, monthIndex, Number(day))).getUTCDate() === Number(day);
  return isRealDay ? milliseconds / 1000 : undefined;
}

/** A two-digit year more than fifty years ahead belongs to the past century (RFC 9110 §5.6.7). */
function expandYear(twoDigits: number, nowSeconds: number): number {
  const thisYear = new Date(nowSeconds * 1000).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + twoDigits;
  return year > thisYear + 50 ? year - 100 : year;
}

/** IMF-fixdate, the only spelling to send. Its years have four digits, so other times become the nearest of these. */
export function formatHttpDate(seconds: number): string {
  return new Date(nearestIsoTime(seconds * 1000)).toUTCString();
}
