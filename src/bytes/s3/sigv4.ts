import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { decodeUtf8, encodeHex, encodeUtf8 } from "../../base/text.ts";

/** SHA-256 of a buffer; callers pass `(bytes) => engine.digest("sha256", bytes)`. */
export type Sha256 = (bytes: Bytes) => Promise<Bytes>;

/** A key of an AWS account or of any store with its protocol. Never shown. */
export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Present for temporary keys. */
  readonly sessionToken?: string | undefined;
}

/** What a signature covers. */
export interface SignableRequest {
  readonly method: string;
  /** Path and query already percent-encoded, as they are sent. */
  readonly url: string;
  /** Names in lower case; all of them are signed. `host` is added. */
  readonly headers: Readonly<Record<string, string>>;
  /** Lower-case hex of the body's SHA-256, or "UNSIGNED-PAYLOAD". */
  readonly payloadHash: string;
}

export interface SigningOptions {
  readonly credentials: Credentials;
  readonly region: string;
  readonly service: string;
  readonly time: Date;
}

export interface PresignOptions extends SigningOptions {
  /** 1 … 604 800 (a week), which servers check. */
  readonly expiresSeconds: number;
}

const ALGORITHM = "AWS4-HMAC-SHA256";
/** Block length of SHA-256 (FIPS 180-4), which HMAC pads its key to (RFC 2104). */
const BLOCK_BYTES = 64;

/** Hex SHA-256 of nothing: the payload hash of requests without a body. */
export const EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/**
 * AWS Signature Version 4 as S3 requires it: paths are encoded once and never normalised. Pure except for the digest,
 * which is injected. Derived keys are kept, because they are valid for a day.
 */
export class SigV4 {
  readonly #sha256: Sha256;
  #key: { readonly id: string; readonly bytes: Promise<Bytes> } | undefined;

  constructor(sha256: Sha256) {
    this.#sha256 = sha256;
  }

  /** The request's headers plus x-amz-date, x-amz-security-token if needed, and authorization. */
  async sign(request: SignableRequest, options: SigningOptions): Promise<Record<string, string>> {
    const { credentials, time } = options;
    const { sessionToken } = credentials;
    const headers: Record<string, string> = {
      ...request.headers,
      "x-amz-date": formatTime(time),
      ...(sessionToken === undefined ? {} : { "x-amz-security-token": sessionToken }),
    };
    const signed = { ...headers, host: new URL(request.url).host };
    const canonical = canonicalRequest({ ...request, headers: signed });
    const signature = await this.#signature(canonical, options);
    const names = signedHeaderNames(signed);
    const credential = `${credentials.accessKeyId}/${scopeOf(options)}`;
    const authorization = `${ALGORITHM} Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`;
    return { ...headers, authorization };
  }

  /** A URL that allows `method` to anyone who has it, until it expires; only the host header is signed. */
  async presign(method: string, url: string, options: PresignOptions): Promise<string> {
    const { credentials, time, expiresSeconds } = options;
    const { sessionToken } = credentials;
    const presigned = new URL(url);
    const query = [
      ["X-Amz-Algorithm", ALGORITHM],
      ["X-Amz-Credential", `${credentials.accessKeyId}/${scopeOf(options)}`],
      ["X-Amz-Date", formatTime(time)],
      ["X-Amz-Expires", String(expiresSeconds)],
      ...(sessionToken === undefined ? [] : [["X-Amz-Security-Token", sessionToken]]),
      ["X-Amz-SignedHeaders", "host"],
    ].map(([name = "", value = ""]) => `${encodeRfc3986(name)}=${encodeRfc3986(value)}`);
    presigned.search = [...presigned.search.slice(1).split("&"), ...query].filter((part) => part !== "").join("&");
    const headers = { host: presigned.host };
    const canonical = canonicalRequest({ method, url: presigned.href, headers, payloadHash: "UNSIGNED-PAYLOAD" });
    return `${presigned.href}&X-Amz-Signature=${await this.#signature(canonical, options)}`;
  }

  async #signature(canonical: string, options: SigningOptions): Promise<string> {
    const digest = encodeHex(await this.#sha256(encodeUtf8(canonical)));
    const text = [ALGORITHM, formatTime(options.time), scopeOf(options), digest].join("\n");
    return encodeHex(await hmacSha256(this.#sha256, await this.#signingKey(options), encodeUtf8(text)));
  }

  #signingKey(options: SigningOptions): Promise<Bytes> {
    const { credentials, region, service, time } = options;
    const day = formatTime(time).slice(0, 8);
    const id = JSON.stringify([credentials.accessKeyId, credentials.secretAccessKey, day, region, service]);
    if (this.#key?.id === id) return this.#key.bytes;
    const bytes = deriveKey(this.#sha256, credentials.secretAccessKey, [day, region, service, "aws4_request"]);
    this.#key = { id, bytes };
    bytes.catch(() => {
      this.#key = undefined; // one failed digest must not fail all later ones
    });
    return bytes;
  }
}

async function deriveKey(sha256: Sha256, secret: string, steps: readonly string[]): Promise<Bytes> {
  let key = encodeUtf8(`AWS4${secret}`);
  for (const step of steps) key = await hmacSha256(sha256, key, encodeUtf8(step));
  return key;
}

/** RFC 2104 over an injected SHA-256. */
export async function hmacSha256(sha256: Sha256, key: Bytes, message: Bytes): Promise<Bytes> {
  const block = new Uint8Array(BLOCK_BYTES);
  block.set(key.byteLength > BLOCK_BYTES ? await sha256(key) : key);
  const inner = await sha256(concatBytes([block.map((value) => value ^ 0x36), message]));
  return sha256(concatBytes([block.map((value) => value ^ 0x5c), inner]));
}

/** The text that is hashed and signed. `headers` must contain the host. */
export function canonicalRequest({ method, url, headers, payloadHash }: SignableRequest): string {
  const { pathname, search } = new URL(url);
  const lines = headerNames(headers).map((name) => `${name}:${trim(headers[name] ?? "")}\n`);
  return [
    method,
    canonicalPath(pathname),
    canonicalQuery(search.slice(1)),
    lines.join(""),
    signedHeaderNames(headers),
    payloadHash,
  ].join("\n");
}

function canonicalPath(pathname: string): string {
  return pathname
    .split("/")
    .map((segment) => encodeRfc3986(decode(segment)))
    .join("/");
}

function canonicalQuery(search: string): string {
  const pairs = search.split("&").filter((pair) => pair !== "");
  const encoded = pairs.map((pair) => {
    const equals = pair.indexOf("=");
    const [name, value] = equals < 0 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
    return [encodeRfc3986(decode(name)), encodeRfc3986(decode(value))] as const;
  });
  // By code unit, which for the encoded text is the byte order; names first, then values.
  encoded.sort((a, b) => compare(a[0], b[0]) || compare(a[1], b[1]));
  return encoded.map(([name, value]) => `${name}=${value}`).join("&");
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function headerNames(headers: Readonly<Record<string, string>>): string[] {
  return Object.keys(headers).sort();
}

function signedHeaderNames(headers: Readonly<Record<string, string>>): string {
  return headerNames(headers).join(";");
}

/** Removes outer spaces, and reduces inner runs to one. */
function trim(value: string): string {
  return value.trim().replace(/ +/g, " ");
}

function scopeOf({ region, service, time }: SigningOptions): string {
  return `${formatTime(time).slice(0, 8)}/${region}/${service}/aws4_request`;
}

/** "20130524T000000Z". */
function formatTime(time: Date): string {
  return time.toISOString().replace(/[-:]|\.\d{3}/g, "");
}

/** Percent-encodes every byte except the unreserved ones of RFC 3986 §2.3, which is stricter than JavaScript's own. */
export function encodeRfc3986(text: string): string {
  if (/^[\w.~-]*$/.test(text)) return text; // the usual case
  // Half a surrogate pair has no UTF-8; the round trip turns it into U+FFFD, whereas encodeURIComponent would throw.
  const wellFormed = decodeUtf8(encodeUtf8(text)) ?? "";
  return encodeURIComponent(wellFormed).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone percent sign, which is taken literally
  }
}
