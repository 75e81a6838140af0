import { UsageError } from "../../../base/errors.ts";

/** The variables of a process: `process.env`, or a copy. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The proxy that the environment names for a URL, as curl reads it: `https_proxy`, `http_proxy`, `all_proxy`,
 * and `no_proxy` for exceptions, in lower or upper case, lower first. Undefined for a direct connection.
 */
export function findProxy(url: URL, environment: Environment): URL | undefined {
  const scheme = url.protocol === "https:" ? "https_proxy" : "http_proxy";
  const text = variable(scheme, environment) ?? variable("all_proxy", environment);
  if (text === undefined || isExcepted(url, variable("no_proxy", environment) ?? "")) return undefined;
  // "proxy:3128" means http, as with curl.
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  const proxy = URL.canParse(full) ? new URL(full) : undefined;
  if (proxy === undefined || !["http:", "https:", "socks5:"].includes(proxy.protocol)) {
    throw proxyError("must be an http, https or socks5 URL", scheme);
  }
  if (credentialsOf(proxy) === undefined) {
    throw proxyError('"%" in its user or password must begin the code of a character ("%25" is "%" itself)', scheme);
  }
  return proxy;
}

/** User and password of a proxy's URL, decoded; undefined if they are not percent-encoded UTF-8. */
export function credentialsOf({
  username,
  password,
}: URL): { readonly user: string; readonly secret: string } | undefined {
  try {
    return { user: decodeURIComponent(username), secret: decodeURIComponent(password) };
  } catch {
    return undefined; // the URIError would show the password
  }
}

/** The value is not shown: it may hold a password. */
function proxyError(reason: string, variableName: string): UsageError {
  const message = `Cannot use the proxy from the environment: ${reason}`;
  const hint = `Correct or unset ${variableName}`;
  return new UsageError("usage/http.proxy", message, { source: variableName }, { hint });
}

function variable(name: string, environment: Environment): string | undefined {
  return environment[name] || environment[name.toUpperCase()] || undefined;
}

/** "*", "host", ".domain" or "domain" with its subdomains, each with or without ":port", split by commas or spaces. */
function isExcepted(url: URL, list: string): boolean {
  const port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((entry) => entry !== "")
    .some((entry) => {
      if (entry === "*") return true;
      const match = /^(.*?)(?::(\d+))?$/.exec(entry);
      const [host, entryPort] = [match?.[1] ?? entry, match?.[2]];
      return (entryPort === undefined || entryPort === port) && isHostOrBelow(url.hostname.toLowerCase(), host);
    });
}

function isHostOrBelow(hostname: string, entry: string): boolean {
  const domain = entry.replace(/^\*?\./, "");
  const bare = hostname.replace(/^\[|\]$/g, "");
  return hostname === domain || bare === domain || hostname.endsWith(`.${domain}`);
}
