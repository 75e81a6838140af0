/** Reading the headers of range replies: pure, and strict, because servers and proxies do lie in them. */

/** What `Headers` offers and every transport can. */
export interface HeaderReader {
  /** Null where there is no such header, or the browser hides it. */
  get(name: string): string | null;
}

/** "bytes 0-99/1234"; `total` is undefined for "/*". Positions are inclusive, as on the wire. */
export interface ContentRange {
  readonly first: number;
  readonly last: number;
  readonly total: number | undefined;
}

/** RFC 9110 §14.4. Undefined where the text is anything else. */
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
/** The length that a 416 tells; undefined where it tells none. */
export function parseUnsatisfiedRange(text: string): number | undefined {
  const match = /^bytes \*\/(\d{1,16})$/.exec(text.trim());
  const total = Number(match?.[1]);
  return Number.isSafeInteger(total) ? total : undefined;
}

/** Undefined where the header is absent or no number. */
export function parseContentLength(text: string | null): number | undefined {
  if (text === null || !/^\d{1,16}$/.test(text.trim())) return undefined;
  const length = Number(text);
  return Number.isSafeInteger(length) ? length : undefined;
}

/** Seconds to wait, from a number of seconds or a date (RFC 9110 §10.2.3); undefined where it is neither. */
export function parseRetryAfter(text: string | null, now: number): number | undefined {
  if (text === null) return undefined;
  if (/^\d{1,9}$/.test(text.trim())) return Number(text);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1000);
}

/** The inclusive range header for a run of bytes. */
export function formatRange(offset: number, byteLength: number): string {
  return `bytes=${offset}-${offset + byteLength - 1}`;
}

/** Whatever a reply says about which version of the file it is from. */
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

/** A tag that promises identical bytes: what If-Range may be used with (RFC 9110 §13.1.5). */
export function strongTag({ etag }: Validators): string | undefined {
  return etag !== undefined && STRONG_TAG.test(etag) ? etag : undefined;
}

/** RFC 9110 §8.8.3: no space, no quote and no control character inside. What is read from a disk may have any of them. */
const STRONG_TAG = /^"[\x21\x23-\x7e\x80-\xff]*"$/;

/**
 * Says how two replies differ, or undefined where nothing shows that they do. Tags that differ only in being
 * weak are the same version behind a proxy; dates count only where no tags can be compared.
 */
export function describeChange(known: Validators, found: Validators): string | undefined {
  if (known.etag !== undefined && found.etag !== undefined) {
    if (opaque(known.etag) === opaque(found.etag)) return undefined;
    return `its ETag was ${known.etag}, is now ${found.etag}`;
  }
  if (known.lastModified === undefined || found.lastModified === undefined) return undefined;
  if (known.lastModified === found.lastModified) return undefined;
  return `it was last modified ${known.lastModified}, is now ${found.lastModified}`;
}

function opaque(etag: string): string {
  return etag.replace(/^W\//, "");
}
