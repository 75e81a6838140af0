/** Reading the headers of range replies: pure, and strict, because servers and proxies do lie in them. */

/** The part of `Headers` that every transport can offer. */
export interface HeaderReader {
  /** Null if there is no such header, or if the browser hides it. */
  get(name: string): string | null;
}

/** "bytes 0-99/1234"; `total` is undefined for "/*". Positions are inclusive, as on the wire. */
export interface ContentRange {
  readonly first: number;
  readonly last: number;
  readonly total: number | undefined;
}

/** RFC 9110 §14.4. Undefined if the text is anything else. */
export function parseContentRange(text: string): ContentRange | undefined {
  const match = /^bytes (\d{1,16})-(\d{1,16})\/(\d{1,16}|\*)$/.exec(text.trim());
  if (match === null) return undefined;
  const [first, last] = [Number(match[1]), Number(match[2])];
  const total = match[3] === "*" ? undefined : Number(match[3]);
  const fine = Number.isSafeInteger(last) && first <= last && (total === undefined || isTotal(total, last));
  return fine ? { first, last, total } : undefined;
}

function isTotal(total: number, last: number): boolean {
  return Number.isSafeInteger(total) && last < total;
}

// Its Content-Range has a star in place of the range (RFC 9110 §14.4).
/** The length that a 416 reports; undefined if it reports none. */
export function parseUnsatisfiedRange(text: string): number | undefined {
  const match = /^bytes \*\/(\d{1,16})$/.exec(text.trim());
  const total = Number(match?.[1]);
  return Number.isSafeInteger(total) ? total : undefined;
}

/** Undefined if the header is absent or no number. */
export function parseContentLength(text: string | null): number | undefined {
  if (text === null || !/^\d{1,16}$/.test(text.trim())) return undefined;
  const length = Number(text);
  return Number.isSafeInteger(length) ? length : undefined;
}

/** Seconds to wait, from a number of seconds or a date (RFC 9110 §10.2.3); undefined if it is neither. */
export function parseRetryAfter(text: string | null, now: number): number | undefined {
  if (text === null) return undefined;
  // RFC 9110 §10.2.3 sets no bound. The code that waits sets one, for seconds as for dates.
  if (/^\d+$/.test(text.trim())) return Math.min(Number(text), Number.MAX_SAFE_INTEGER);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1000);
}

/** The inclusive range header for a run of bytes. */
export function formatRange(offset: number, byteLength: number): string {
  return `bytes=${offset}-${offset + byteLength - 1}`;
}

/** What a reply says about the version of its file. */
export interface Validators {
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
}

export function readValidators(headers: HeaderReader): Validators {
  return {
    etag: headers.get("etag")?.trim() || undefined,
    lastModified: headers.get("last-modified")?.trim() || undefined,
  };
}

/** RFC 9110 §8.8.3: no space, no quote and no control character inside. A tag from a disk may have any of them. */
const ENTITY_TAG = /^(?:W\/)?"[!#-~\u0080-\u00ff]*"$/;
const HTTP_DATE = /^[A-Za-z0-9 ,:-]{1,40}$/;

/** True if a text is an entity-tag, weak or strong. */
export function isEntityTag(text: string): boolean {
  return ENTITY_TAG.test(text);
}

/** A tag that promises identical bytes: only such a tag may be used with If-Range (RFC 9110 §13.1.5). */
export function strongTag({ etag }: Validators): string | undefined {
  return etag !== undefined && isEntityTag(etag) && !etag.startsWith("W/") ? etag : undefined;
}

/** True for every header that is not a condition, and for conditions with a valid value (RFC 9110 §13.1). */
export function isCondition(name: string, value: string): boolean {
  if (name === "if-range") return isEntityTag(value) || HTTP_DATE.test(value);
  if (name !== "if-match" && name !== "if-none-match") return true;
  return value === "*" || value.split(/\s*,\s*(?=W\/"|")/).every(isEntityTag);
}

/**
 * Says how a later reply differs from the first one; undefined if it is shown to be of the same version. A later reply
 * must say what the first one said, and no more: one that leaves out a tag, or states one that the first reply lacked,
 * may be of any version.
 */
export function describeChange(known: Validators, found: Validators): string | undefined {
  const isSameDate = known.lastModified !== undefined && known.lastModified === found.lastModified;
  if (known.etag !== undefined && found.etag !== undefined) {
    // A proxy may weaken a tag. A weak tag alone promises the same meaning; together with the date, the same file.
    const isSame = known.etag === found.etag || (isSameTag(known.etag, found.etag) && isSameDate);
    if (!isSame) return `its ETag was ${known.etag}, is now ${found.etag}`;
    const isTold = isWeak(known.etag) && known.lastModified !== undefined && found.lastModified !== undefined;
    return isTold && !isSameDate ? describeDates(known, found) : undefined;
  }
  const tag = known.etag ?? found.etag;
  // A weak tag promises no more than a date does (RFC 9110 §8.8.1), so some servers add it to some replies only.
  if (tag !== undefined && !(isWeak(tag) && isSameDate)) {
    return known.etag === undefined ? `it had no ETag, has now ${tag}` : `its ETag was ${tag}, is now missing`;
  }
  return known.lastModified === found.lastModified ? undefined : describeDates(known, found);
}

function describeDates(known: Validators, found: Validators): string {
  if (known.lastModified === undefined) return `it had no date, was now last modified ${found.lastModified}`;
  return `it was last modified ${known.lastModified}, is now ${found.lastModified ?? "of an unknown date"}`;
}

/** The version that all replies for one file must be of. */
export class HeldVersion {
  #known: Validators | undefined;

  /** Without validators, the first reply says which version it is. */
  constructor(known: Validators | undefined) {
    this.#known = known;
  }

  /** What a request may ask for with If-Range. */
  get tag(): string | undefined {
    return this.#known === undefined ? undefined : strongTag(this.#known);
  }

  /** How a reply differs; undefined if it is of this version. */
  describeChange(headers: HeaderReader): string | undefined {
    return this.#known === undefined ? undefined : describeChange(this.#known, readValidators(headers));
  }

  /** Later replies must also agree with what this one adds: a date to a tag, or a weak tag to a date. */
  hold(headers: HeaderReader): void {
    const found = readValidators(headers);
    const { etag = found.etag, lastModified = found.lastModified } = this.#known ?? {};
    this.#known = { etag, lastModified };
  }
}

function isWeak(etag: string): boolean {
  return !isEntityTag(etag) || etag.startsWith("W/");
}

/** True if two tags name the same version, whether or not one of them promises the same bytes. */
export function isSameTag(a: string, b: string): boolean {
  return opaque(a) === opaque(b);
}

function opaque(etag: string): string {
  return etag.replace(/^W\//, "");
}
