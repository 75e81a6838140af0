import { encodeBase64 } from "../base/base64.ts";
import { UsageError } from "../base/errors.ts";
import { encodeUtf8 } from "../base/text.ts";
import { isCondition } from "./http-headers.ts";

/** A URL as it is requested and as it may be shown. */
export interface HttpAddress {
  /** Without user, password and fragment. */
  readonly url: string;
  /** As `url`, with "?…" for a query: signed URLs carry their key there. */
  readonly label: string;
  /** Authorization for the user and password that stood in the URL. */
  readonly authorization: string | undefined;
}

export function parseHttpUrl(text: string): HttpAddress {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    // The text is not repeated: what is no URL may still hold a key.
    const found = url === undefined ? "something else" : `"${url.protocol}"`;
    const isBroken = url === undefined && /^https?:\/\//i.test(text);
    const reason = isBroken ? "its host or port is none" : `must begin with http:// or https://, found ${found}`;
    throw new UsageError("usage/http.url", `Cannot open a URL: ${reason}`, { source: "URL" });
  }
  const authorization = basicAuthorization(url);
  url.username = "";
  url.password = "";
  url.hash = "";
  const label = `${url.origin}${url.pathname}${url.search === "" ? "" : "?…"}`;
  return { url: url.href, label, authorization };
}

function basicAuthorization({ username, password }: URL): string | undefined {
  if (username === "" && password === "") return undefined;
  return `Basic ${encodeBase64(encodeUtf8(`${decode(username)}:${decode(password)}`))}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone percent sign, which then means itself
  }
}

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Lower-cases names and refuses what could smuggle a second header into the request. */
export function checkHeaders(headers: Readonly<Record<string, string>>, label: string): Record<string, string> {
  const checked: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (!TOKEN.test(name) || typeof value !== "string" || !/^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(value))
      throw headerError(name, label);
    checked[name.toLowerCase()] = value;
  }
  return checked;
}

/** Headers that say where a message ends and what becomes of its connection: they are the transport's alone. */
const FRAMING: ReadonlySet<string> = new Set([
  "content-length",
  "transfer-encoding",
  "keep-alive",
  "upgrade",
  "trailer",
  "te",
  "expect",
  "proxy-connection",
]);

/** What a request is made of, as any caller may give it. */
interface RequestParts {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * The last look at a request before it is written to the wire, whoever made it: nothing in it may be read as another line
 * or another request, and conditions hold entity-tags only.
 */
export function checkRequest({ url, method, headers }: RequestParts): { url: URL; headers: Record<string, string> } {
  const address = parseHttpUrl(url);
  const parsed = new URL(address.url);
  const line = `${method}${parsed.host}${parsed.pathname}${parsed.search}`;
  if (!/^[A-Z]{1,20}$/.test(method) || !/^[!-~]+$/.test(line)) {
    const message = "Cannot send a request: its method or address has characters that HTTP forbids";
    throw new UsageError("usage/http.request", message, { source: address.label });
  }
  const checked = checkHeaders(headers, address.label);
  for (const [name, value] of Object.entries(checked)) {
    const isAllowed = name === "connection" ? /^(close|keep-alive)$/i.test(value.trim()) : !FRAMING.has(name);
    if (!isAllowed) throw headerError(name, address.label, "it belongs to the connection, not to the request");
    if (!isCondition(name, value)) throw headerError(name, address.label, "its value is no entity-tag");
  }
  return { url: parsed, headers: checked };
}

function headerError(
  name: string,
  label: string,
  why = "its name or value has characters that HTTP forbids",
): UsageError {
  const message = `Cannot send the header ${JSON.stringify(name)}: ${why}`;
  return new UsageError(
    "usage/http.header",
    message,
    { source: label },
    {
      hint: "Look for a line break at the end of the value",
    },
  );
}
