import { SourceError } from "../../base/errors.ts";
import {
  downgradeError,
  type HttpRequest,
  type HttpResponse,
  type HttpTransport,
  PORTABLE_HEADERS,
} from "../../bytes/http/transport.ts";
import { checkRequest, parseHttpUrl } from "../../bytes/http/url.ts";
import type { WireRequest } from "./http-connection.ts";
import { isForwarded, proxyAuthorization, type Route } from "./http-dial.ts";
import { transportError } from "./http-errors.ts";
import { ConnectionPool } from "./http-pool.ts";
import { addressesOf, isPrivateAddress, type Lookup } from "./private-address.ts";
import { type Environment, findProxy } from "./proxy-environment.ts";

export interface NodeTransportOptions {
  /** Where proxies are looked up: `process.env` where absent. */
  readonly environment?: Environment | undefined;
  /** Connections to one server at a time; requests beyond wait a moment for their turn. */
  readonly connections?: number | undefined;
  /** Longest wait for a connection, for the head of a reply, and between two pieces of a body. */
  readonly timeoutMs?: number | undefined;
  readonly maxRedirects?: number | undefined;
  /** Resolves names when a redirect is judged; the system's resolver where absent. */
  readonly lookup?: Lookup | undefined;
}

/** A transport with connections of its own; idle ones do not keep the process alive. */
export interface NodeTransport extends HttpTransport {
  close(): Promise<void>;
}

/** Long streams use six; this many pay for short reads that wait for the server more than for the line. */
const CONNECTIONS = 32;
const TIMEOUT_MS = 30_000;
const MAX_REDIRECTS = 10;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Methods that may be sent again where a kept connection turns out to be closed (RFC 9110 §9.2.2). */
const REPEATABLE: ReadonlySet<string> = new Set(["GET", "HEAD", "PUT", "DELETE"]);

/**
 * HTTP/1.1 for Node, over sockets: Node's own client hands out bodies in pieces of 64 KiB through several layers of
 * streams, which costs more than hashing and writing them. Proxies come from the environment. Redirects are followed by
 * hand: at another origin only headers that cannot be credentials are sent on, https never turns into http, and a public
 * server cannot lead into the private network.
 */
export function nodeTransport(options: NodeTransportOptions = {}): NodeTransport {
  const { environment, connections = CONNECTIONS, timeoutMs = TIMEOUT_MS, lookup } = options;
  const maxRedirects = options.maxRedirects ?? MAX_REDIRECTS;
  const pool = new ConnectionPool({ connections, timeoutMs });
  return {
    conditions: "if-range",
    async request(request: HttpRequest): Promise<HttpResponse> {
      request.signal.throwIfAborted();
      const { url, headers } = checkRequest(request);
      let hop: Hop = { url, headers, addresses: undefined };
      const visited = new Set<string>();
      for (;;) {
        const proxy = findProxy(hop.url, environment ?? process.env);
        const { response, address } = await send({ url: hop.url, proxy, addresses: hop.addresses }, hop.headers);
        const mayMove = request.body === undefined && REDIRECTS.has(response.status);
        const location = mayMove ? response.headers.get("location") : null;
        if (location === null) return response;
        response.cancel();
        visited.add(hop.url.href);
        const target = redirectTarget(hop.url, location);
        if (visited.has(target.href)) throw redirectError(target, "the redirects go round in a circle");
        if (visited.size > maxRedirects) throw redirectError(target, `there are more than ${maxRedirects}`);
        // Before its name is looked up: that alone would tell somebody that it was asked for.
        request.onRedirect?.(target.href);
        hop = await nextHop({ ...hop, address }, target);
      }

      async function send(
        route: Route,
        all: Hop["headers"],
      ): Promise<{ response: HttpResponse; address: string | undefined }> {
        const wire = wireRequest(request, route, all, timeoutMs);
        try {
          for (let age: "any" | "new" = "any"; ; age = "new") {
            const lease = await pool.lease(route, age, request.signal);
            try {
              const response = await lease.connection.send(wire, lease.release);
              return { response, address: route.proxy === undefined ? lease.connection.address : undefined };
            } catch (error) {
              // A server may close a connection that was idle: that says nothing about the request.
              const isStale = lease.age === "kept" && lease.connection.isUntouched && !isOurs(error);
              if (!isStale || !REPEATABLE.has(request.method)) throw error;
            }
          }
        } catch (error) {
          request.signal.throwIfAborted();
          throw transportError(error, wire.label);
        }
      }

      async function nextHop(from: Hop & { readonly address: string | undefined }, target: URL): Promise<Hop> {
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
    },
    async close() {
      pool.close();
    },
  };
}

/** One station of a chain of redirects. */
interface Hop {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** The only ones to connect to, where they were judged. */
  readonly addresses: readonly string[] | undefined;
}

/** Errors by which we gave up ourselves: the connection was not to blame for being closed. */
function isOurs(error: unknown): boolean {
  return error instanceof SourceError;
}

/** True only where the server that redirects is private whichever of its addresses one takes, and was so when it answered. */
async function isPrivateOrigin(
  { url, address }: { readonly url: URL; readonly address: string | undefined },
  lookup: Lookup | undefined,
): Promise<boolean> {
  if (address !== undefined && !isPrivateAddress(address)) return false;
  const all = await addressesOf(url.hostname, lookup);
  return all.length > 0 && all.every(isPrivateAddress);
}

function redirectTarget(from: URL, location: string): URL {
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

function redirectError(url: URL, reason: string): SourceError {
  const { label } = parseHttpUrl(url.href);
  return new SourceError("source/http.redirect", `Cannot follow a redirect of "${label}": ${reason}`, {
    source: label,
  });
}

/** The head of a request (RFC 9112 §3, §5) and what belongs to it. Its headers have been checked. */
function wireRequest(request: HttpRequest, route: Route, headers: Hop["headers"], timeoutMs: number): WireRequest {
  const { method, signal, body, rateWatch } = request;
  const { url, proxy } = route;
  const authorization = proxy !== undefined && isForwarded(route) ? proxyAuthorization(proxy) : undefined;
  const all = {
    host: url.host,
    "user-agent": "tare",
    ...(authorization === undefined ? {} : { "proxy-authorization": authorization }),
    ...headers,
    ...(body === undefined ? {} : { "content-length": String(body.byteLength) }),
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const place = isForwarded(route) ? url.origin : "";
  const head = `${method} ${place}${url.pathname}${url.search} HTTP/1.1\r\n${lines.join("")}\r\n`;
  return { method, head, body, url: url.href, label: parseHttpUrl(url.href).label, signal, timeoutMs, rateWatch };
}
