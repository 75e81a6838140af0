import { SourceError } from "../../../base/errors.ts";
import { type HttpRequest, type HttpResponse, type HttpTransport, TIMEOUT_MS } from "../../../bytes/http/transport.ts";
import { checkRequest, parseHttpUrl } from "../../../bytes/http/url.ts";
import type { WireRequest } from "./connection.ts";
import { isForwarded, proxyAuthorization, type Route } from "./dial.ts";
import { transportError } from "./errors.ts";
import { ConnectionPool } from "./pool.ts";
import type { Lookup } from "./private-address.ts";
import { type Environment, findProxy } from "./proxy-environment.ts";
import { type Hop, MAX_REDIRECTS, nextHop, REDIRECTS, redirectError, redirectTarget } from "./redirects.ts";

export interface NodeTransportOptions {
  /** Where to look up proxies: `process.env` if absent. */
  readonly environment?: Environment | undefined;
  /** Connections to one server at a time; more requests wait a moment for their turn. */
  readonly connections?: number | undefined;
  /** Longest wait for a connection, for the head of a reply, and between two pieces of a body. */
  readonly timeoutMs?: number | undefined;
  readonly maxRedirects?: number | undefined;
  /** Resolves names to check a redirect; the system's resolver if absent. */
  readonly lookup?: Lookup | undefined;
}

/** A transport with its own connections; idle ones do not keep the process alive. */
export interface NodeTransport extends HttpTransport {
  close(): Promise<void>;
}

/** Long streams use six. This many help short reads, which wait for the server more than for the line. */
const CONNECTIONS = 32;
/** Methods that may be sent again if a kept connection turns out to be closed (RFC 9110 §9.2.2). */
const REPEATABLE: ReadonlySet<string> = new Set(["GET", "HEAD", "PUT", "DELETE"]);

/**
 * HTTP/1.1 for Node, over sockets. Node's own client hands out bodies in pieces of 64 KiB through several layers of
 * streams, which costs more than hashing and writing them. Proxies come from the environment. Redirects are followed
 * here: another origin gets only headers that cannot be credentials, https never turns into http, and a public server
 * cannot lead into the private network.
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
        // Check before the name is looked up: the lookup alone would reveal the request.
        request.onRedirect?.(target.href);
        hop = await nextHop({ ...hop, address }, target, { environment, lookup });
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
              // A server may close an idle connection: that says nothing about the request.
              const isStale = lease.age === "kept" && lease.connection.isUntouched && !isOurs(error);
              if (!isStale || !REPEATABLE.has(request.method)) throw error;
            }
          }
        } catch (error) {
          request.signal.throwIfAborted();
          throw transportError(error, wire.label);
        }
      }
    },
    async close() {
      pool.close();
    },
  };
}

/** Errors with which we gave up ourselves: they do not mean that the connection was stale. */
function isOurs(error: unknown): boolean {
  return error instanceof SourceError;
}

/** The head of a request (RFC 9112 §3, §5) with its body and limits. Its headers were checked already. */
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
