import { SourceError, UsageError } from "../../base/errors.ts";
import { encodeBase64, encodeUtf8 } from "../../base/text.ts";
import { checkRelativeName, escapeError, isFolderOfKind, type ResolveOptions, type Resolver } from "../resolver.ts";
import type { Source } from "../source.ts";
import { isCondition } from "./headers.ts";

/** A URL as it is requested and as it may be shown. */
interface HttpAddress {
  /** Without user, password and fragment. */
  readonly url: string;
  /** Like `url`, with "?…" for a query: signed URLs carry their key there. */
  readonly label: string;
  /** Authorization for the user and password in the URL. */
  readonly authorization: string | undefined;
}

export function parseHttpUrl(text: string): HttpAddress {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    // The text is not repeated: even if it is not a URL, it may hold a key.
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
    return text; // a lone percent sign, which is taken literally
  }
}

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Lower-cases names, and refuses characters that could smuggle a second header into the request. */
export function checkHeaders(headers: Readonly<Record<string, string>>, label: string): Record<string, string> {
  const checked: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (!TOKEN.test(name) || typeof value !== "string" || !/^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(value))
      throw headerError(name, label, "its name or value has characters that HTTP forbids", LINE_BREAK_HINT);
    checked[name.toLowerCase()] = value;
  }
  return checked;
}

/** Headers that say where a message ends and what happens to its connection: only the transport sets them. */
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

/** The parts of a request, as any caller may give them. */
interface RequestParts {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * The last check of every request before it is sent: nothing in it may be read as another line or another request, and
 * conditions hold only entity-tags.
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

const LINE_BREAK_HINT = "Look for a line break at the end of the value";

function headerError(name: string, label: string, why: string, hint?: string): UsageError {
  const message = `Cannot send the header ${JSON.stringify(name)}: ${why}`;
  return new UsageError("usage/http.header", message, { source: label }, hint === undefined ? {} : { hint });
}

/** The servers that a file may refer to besides its own: origins, as `parseOrigin` returns them. */
export type AllowedOrigins = ReadonlySet<string>;

/** The origin in a value of `--allow-origin`: scheme, host and port. A path is ignored. */
export function parseOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url.origin;
  const message = "Cannot allow an origin: must be a URL that begins with http:// or https://";
  throw new UsageError("usage/allow-origin", message, { source: "options", path: "allowOrigin" });
}

/**
 * Refuses an address that a file names, unless it is on the file's own server or on an allowed one. Scheme and port
 * belong to the server: http is not https. `own` is undefined for a local file, which has no server.
 */
export function checkOrigin(
  url: string,
  {
    label,
    own,
    allowed,
  }: { readonly label: string; readonly own: string | undefined; readonly allowed: AllowedOrigins },
): void {
  parseHttpUrl(url);
  const { origin } = new URL(url);
  if (origin === own || allowed.has(origin)) return;
  const where = own === undefined ? "the network, and it is a local file" : `another server than its own, "${own}"`;
  throw new SourceError(
    "source/resolver.origin",
    `Cannot open a file that "${label}" refers to: it leads to ${where}`,
    { source: label },
    { hint: `If you trust it, pass the option allowOrigin ${origin}` },
  );
}

/** Opens a URL that the resolver has approved, with the credentials that its own origin may get. */
export type OpenUrl = (url: string, options: ResolveOptions) => Promise<Source>;

export interface HttpResolverOptions {
  /** Servers that full addresses may lead to besides the file's own; none if absent. */
  readonly allowedOrigins?: AllowedOrigins | undefined;
}

/** Spellings that could make a server see a separator or a dot segment that we did not see. */
const ENCODED = /%(2e|2f|5c|00)/i;

/**
 * Resolver for the siblings of a file on a web server: same origin, same folder or below it. The query string of the
 * file is kept, because it holds signatures and revisions. Full addresses stay on the same origin unless another one
 * was allowed, and are opened unchanged.
 */
export function httpResolver(url: string, open: OpenUrl, options: HttpResolverOptions = {}): Resolver {
  const { label } = parseHttpUrl(url);
  const base = new URL(url);
  const folder = base.pathname.slice(0, base.pathname.lastIndexOf("/") + 1);
  const outer = new URL(base);
  outer.pathname = folder.slice(0, -1);
  return {
    name: decodeName(base.pathname.slice(folder.length)),
    above: isFolderOfKind(outer.pathname.split("/").at(-1) ?? "") ? httpResolver(outer.href, open, options) : undefined,
    async resolve(name: string, resolveOptions: ResolveOptions = {}): Promise<Source> {
      const at = { source: label };
      checkRelativeName(name, at);
      if (ENCODED.test(name)) throw escapeError(name, "it contains an encoded separator or dot", at);
      const path = name.split("/").map(encodeURIComponent).join("/");
      const sibling = new URL(base);
      sibling.hash = "";
      sibling.pathname = folder + path;
      // The URL parser must return exactly the path that was built.
      if (sibling.pathname !== folder + path) throw escapeError(name, "it does not stay in its folder", at);
      return open(sibling.href, { ...resolveOptions, namedBy: url });
    },
    async resolveUrl(address: string, resolveOptions: ResolveOptions = {}): Promise<Source> {
      const judge = (target: string): void =>
        checkOrigin(target, { label, own: base.origin, allowed: options.allowedOrigins ?? new Set() });
      judge(address);
      return open(address, { ...resolveOptions, namedBy: url, onRedirect: judge });
    },
  };
}

function decodeName(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // not UTF-8 after percent-decoding: shown unchanged
  }
}
