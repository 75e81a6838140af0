import { SourceError } from "../../../base/errors.ts";
import { downgradeError, PORTABLE_HEADERS } from "../../../bytes/http/transport.ts";
import { parseHttpUrl } from "../../../bytes/http/url.ts";
import { addressesOf, isPrivateAddress, type Lookup } from "./private-address.ts";
import { type Environment, findProxy } from "./proxy-environment.ts";

/**
 * Which redirects are followed, and with what: another origin gets only headers that cannot be credentials, https never
 * turns into http, and a public server cannot lead into the private network.
 */

/** Longer chains are refused. */
export const MAX_REDIRECTS = 10;
export const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** One step of a chain of redirects. */
export interface Hop {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** If these were checked, connect only to them. */
  readonly addresses: readonly string[] | undefined;
}

/** Where to look up proxies and names. */
interface Surroundings {
  readonly environment: Environment | undefined;
  readonly lookup: Lookup | undefined;
}

/** The next step to a target that was checked. Refuses one that leads into a private network. */
export async function nextHop(
  from: Hop & { readonly address: string | undefined },
  target: URL,
  { environment, lookup }: Surroundings,
): Promise<Hop> {
  if (target.origin === from.url.origin) return { url: target, headers: from.headers, addresses: from.addresses };
  const kept = Object.entries(from.headers).filter(([name]) => PORTABLE_HEADERS.has(name));
  const proxy = findProxy(target, environment ?? process.env);
  const judged = await addressesOf(target.hostname, lookup);
  if (judged.some(isPrivateAddress) && !(await isPrivateOrigin(from, lookup))) {
    throw redirectError(from.url, `it leads into a private network ("${target.hostname}")`);
  }
  // A proxy may know names that are unknown here, and looks them up itself.
  const addresses = proxy === undefined ? judged : undefined;
  return { url: target, headers: Object.fromEntries(kept), addresses };
}

/** True only if all addresses of the redirecting server are private, and the one that answered was private too. */
async function isPrivateOrigin(
  { url, address }: { readonly url: URL; readonly address: string | undefined },
  lookup: Lookup | undefined,
): Promise<boolean> {
  if (address !== undefined && !isPrivateAddress(address)) return false;
  const all = await addressesOf(url.hostname, lookup);
  return all.length > 0 && all.every(isPrivateAddress);
}

/** Where a redirect leads, without credentials of the address; refuses what is no address of the web. */
export function redirectTarget(from: URL, location: string): URL {
  if (!URL.canParse(location, from)) throw redirectError(from, "its target is no URL");
  const url = new URL(location, from);
  url.username = "";
  url.password = "";
  url.hash = "";
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw redirectError(from, `its target must be http or https, found "${url.protocol}"`);
  }
  if (from.protocol === "https:" && url.protocol === "http:") throw downgradeError(from.host);
  return url;
}

export function redirectError(url: URL, reason: string): SourceError {
  const { label } = parseHttpUrl(url.href);
  return new SourceError("source/http.redirect", `Cannot follow a redirect of "${label}": ${reason}`, {
    source: label,
  });
}
