import { encodeBase64 } from "../base/base64.ts";
import { UsageError } from "../base/errors.ts";
import { encodeUtf8 } from "../base/text.ts";

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
    if (!TOKEN.test(name) || !/^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(value)) throw headerError(name, label);
    checked[name.toLowerCase()] = value;
  }
  return checked;
}

function headerError(name: string, label: string): UsageError {
  const message = `Cannot send the header ${JSON.stringify(name)}: its name or value has characters that HTTP forbids`;
  return new UsageError(
    "usage/http.header",
    message,
    { source: label },
    {
      hint: "Look for a line break at the end of the value",
    },
  );
}
