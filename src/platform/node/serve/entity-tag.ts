import type { BigIntStats } from "node:fs";

/** Which version of a file a reply is from. */
export interface Version {
  /** As sent: `"…"`, or `W/"…"` while it cannot promise identical bytes. */
  readonly etag: string;
  /** Whole seconds since 1970. */
  readonly modified: number;
}

/**
 * A file that is written to twice within one tick of the file system's clock has the same time stamp both times.
 * The slowest common tick of Linux is 10 ms; stamps in whole seconds come from file systems that know no more
 * (FAT counts in steps of two).
 */
const FINE_TICK_MS = 50;
const COARSE_TICK_MS = 2000;

/**
 * The version of an open file: by the digest that an index states for it, otherwise by length, time of change in
 * nanoseconds and inode. The tag is weak until the time stamp is old enough that another change must alter it.
 */
export function versionOf(stats: BigIntStats, digest: string | undefined, now: number): Version {
  const modified = Number(stats.mtimeNs / 1_000_000_000n);
  if (digest !== undefined) return { etag: `"sha256-${digest}"`, modified };
  const tag = [stats.size, stats.mtimeNs, stats.ino].map((value) => value.toString(16)).join("-");
  return { etag: isSettled(stats.mtimeNs, now) ? `"${tag}"` : `W/"${tag}"`, modified };
}

function isSettled(mtimeNs: bigint, now: number): boolean {
  const tick = mtimeNs % 1_000_000_000n === 0n ? COARSE_TICK_MS : FINE_TICK_MS;
  return now - Number(mtimeNs / 1_000_000n) >= tick;
}

/** True where both stats are of the same file with the same content, as far as the file system can tell. */
export function isSameVersion(a: BigIntStats, b: BigIntStats): boolean {
  return a.size === b.size && a.mtimeNs === b.mtimeNs && a.ino === b.ino && a.dev === b.dev;
}

/** RFC 9110 §8.8.3: etagc is any visible character but the quote. */
const TAGS = /(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"/g;

/** The tags of If-Match and If-None-Match, `"*"` for any. What is not a tag is passed over. */
export function parseTags(text: string): readonly string[] | "*" {
  return text.trim() === "*" ? "*" : (text.match(TAGS) ?? []);
}

/** Strong comparison: equal, and neither is weak (RFC 9110 §8.8.3.2). */
export function matchesStrongly(a: string, b: string): boolean {
  return a === b && !a.startsWith("W/");
}

export function matchesWeakly(a: string, b: string): boolean {
  return a.replace(/^W\//, "") === b.replace(/^W\//, "");
}
