import type { IncomingHttpHeaders } from "node:http";
import { matchesStrongly, matchesWeakly, parseTags, type Version } from "./entity-tag.ts";
import { parseHttpDate } from "./http-dates.ts";

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
  return date === version.modified && now / 1000 >= date + 1;
}

function anyTag(text: string, etag: string, matches: (a: string, b: string) => boolean): boolean {
  const tags = parseTags(text);
  return tags === "*" || tags.some((tag) => matches(tag, etag));
}

function readDate(text: string | undefined, now: number): number | undefined {
  return text === undefined ? undefined : parseHttpDate(text, now / 1000);
}
