import { FormatError, type Location, SourceError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { parseHttpUrl } from "../../bytes/http/url.ts";
import { checkRelativeName } from "../../bytes/resolver.ts";

/** Where a file of a set is. `elsewhere` is where to go when there is no such sibling. */
export type SetPlace =
  | { readonly kind: "sibling"; readonly name: string; readonly elsewhere?: string }
  | { readonly kind: "url"; readonly url: string };

/** What the places of a set's files depend on, beside their paths. */
export interface SetOrigin {
  /** "address" where the JSON itself came from a server or an object store. */
  readonly from: "folder" | "address";
  readonly baseUrl?: string | undefined;
}

/** RFC 3986 §3.1, with the colon; a drive letter looks the same and is refused as well. */
const SCHEME = /^[a-z][a-z0-9+.-]*:/i;
const HTTP = /^https?:\/\//i;

/**
 * Where a path leads. A full http(s) address stands for itself. Else `base_url` is the folder (joined by RFC 3986, as
 * the reference does); where the JSON is in a local folder, a sibling that exists comes before it. Else the file is a
 * sibling, and names that leave the folder are refused. No other scheme than http and https is followed.
 */
export function locateFile(path: string, origin: SetOrigin, at: Location): SetPlace {
  if (HTTP.test(path)) return { kind: "url", url: parseAddress(path, at).href };
  if (SCHEME.test(path)) throw schemeError(path, at);
  if (origin.baseUrl === undefined) return { kind: "sibling", name: siblingName(path, at) };
  const url = joinUrl(parseAddress(origin.baseUrl, { ...at, path: "base_url" }), path, at);
  const name = origin.from === "folder" ? safeName(path) : undefined;
  return name === undefined ? { kind: "url", url } : { kind: "sibling", name, elsewhere: url };
}

/** How a file of a set is called in lists and messages: its path, without what must not be shown of an address. */
export function labelOf(path: string): string {
  return HTTP.test(path) && URL.canParse(path) ? parseHttpUrl(path).label : path;
}

/** "./x" is "x"; everything else that is not plainly in the folder is refused by the resolver's own rule. */
function siblingName(path: string, at: Location): string {
  const name = path.replace(/^(\.\/)+/, "");
  checkRelativeName(name, at);
  return name;
}

function safeName(path: string): string | undefined {
  try {
    return siblingName(path, { source: "set" });
  } catch (error) {
    if (error instanceof SourceError) return undefined;
    throw error;
  }
}

/**
 * The path below `base_url`, which is a folder with or without its final slash. Its query, where signatures stand, is
 * kept for addresses of the same origin that bring none; what names another host never gets it.
 */
function joinUrl(base: URL, path: string, at: Location): string {
  const folder = new URL(base);
  folder.search = "";
  folder.hash = "";
  if (!folder.pathname.endsWith("/")) folder.pathname += "/";
  if (!URL.canParse(path, folder.href)) throw addressError(at);
  const url = new URL(path, folder.href);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw schemeError(path, at);
  if (url.origin === base.origin && url.search === "") url.search = base.search;
  return url.href;
}

function parseAddress(text: string, at: Location): URL {
  if (!HTTP.test(text) || !URL.canParse(text)) throw addressError(at);
  return new URL(text);
}

/** The text is not repeated: it may hold a key. */
function addressError(at: Location): FormatError {
  const message = `Cannot follow ${at.path ?? "the path"} of the set: must be a whole http(s) address`;
  return new FormatError("format/aeroset.address", message, at);
}

function schemeError(path: string, at: Location): FormatError {
  const scheme = printable(SCHEME.exec(path)?.[0] ?? "");
  const message = `Cannot follow ${at.path ?? "the path"} of the set: must be a file name, http:// or https://, found "${scheme}"`;
  return new FormatError("format/aeroset.address", message, at, {
    hint: "A set may only name files beside it and web addresses",
  });
}
