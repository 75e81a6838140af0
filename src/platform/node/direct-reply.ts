/** The head of a reply whose body has a known length. */
export interface ReplyHead {
  readonly status: number;
  /** Names in lower case; of a header that comes twice, the last. */
  readonly headers: ReadonlyMap<string, string>;
  readonly byteLength: number;
  readonly connection: "keep" | "close";
}

/** Headers that must not come twice with different values: two readers would disagree about the message. */
const SINGLE: ReadonlySet<string> = new Set(["content-length", "content-range", "etag"]);

/**
 * Reads a status line and headers (RFC 9112 §4, §5), without the empty line at the end. Undefined for everything that
 * is not a plain reply with a body of stated length: redirects, interim replies, chunked bodies, folded lines.
 */
export function parseReplyHead(text: string): ReplyHead | undefined {
  const [statusLine = "", ...lines] = text.split("\r\n");
  const status = Number(/^HTTP\/1\.1 ([2-5]\d\d)(?: |$)/.exec(statusLine)?.[1]);
  if (Number.isNaN(status) || (status >= 300 && status < 400 && status !== 304)) return undefined;
  const headers = new Map<string, string>();
  for (const line of lines) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is refused
    const match = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\u0000-\u0008\u000a-\u001f\u007f]*)$/.exec(line);
    if (match === null) return undefined;
    const [, name = "", value = ""] = match;
    const key = name.toLowerCase();
    if (SINGLE.has(key) && headers.has(key) && headers.get(key) !== value.trim()) return undefined;
    headers.set(key, value.trim());
  }
  if (headers.has("transfer-encoding")) return undefined;
  const byteLength = status === 304 || status === 204 ? 0 : lengthOf(headers.get("content-length"));
  if (byteLength === undefined) return undefined;
  const isClosing = /(^|,)\s*close\s*(,|$)/i.test(headers.get("connection") ?? "");
  return { status, headers, byteLength, connection: isClosing ? "close" : "keep" };
}

function lengthOf(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,16}$/.test(text)) return undefined;
  const length = Number(text);
  return Number.isSafeInteger(length) ? length : undefined;
}
