import type { HttpRequest, HttpResponse, HttpTransport } from "../../bytes/http-transport.ts";
import { parseHttpUrl } from "../../bytes/http-url.ts";
import { DirectConnection } from "./direct-connection.ts";
import { transportError } from "./http-errors.ts";
import type { NodeTransport } from "./http-transport.ts";
import { type Environment, findProxy } from "./proxy-environment.ts";

export interface DirectTransportOptions {
  /** Takes every request that is not a plain download from a plain server. */
  readonly inner: NodeTransport;
  readonly environment?: Environment | undefined;
  /** Connections that will be used at once: their buffers share one bound. */
  readonly connections: number;
}

/** What one connection reads at once, and what all of them may hold together. */
const BUFFER_BYTES = 512 << 10;
const ALL_BUFFERS_BYTES = 16 << 20;

/**
 * A transport for long downloads. undici hands out bodies in pieces of 64 KiB through three layers of streams, which
 * costs more than hashing and writing them; here a connection reads into one buffer of its own, half a megabyte at a
 * time. It speaks only the plainest HTTP/1.1: a GET whose reply states its length. Proxies, redirects and every other
 * kind of reply are left to the inner transport, for the rest of the server's files as well.
 */
export function directTransport({ inner, environment, connections }: DirectTransportOptions): NodeTransport {
  const idle = new Map<string, DirectConnection[]>();
  const unusual = new Set<string>();
  const bufferBytes = Math.min(BUFFER_BYTES, Math.max(64 << 10, Math.floor(ALL_BUFFERS_BYTES / connections)));
  let isClosed = false;

  const attempt = async (request: HttpRequest, url: URL): Promise<HttpResponse | undefined> => {
    for (;;) {
      const kept = idle.get(url.origin)?.pop();
      const connection = kept ?? (await DirectConnection.open(url, { bufferBytes, signal: request.signal }));
      const release = (): void => {
        if (isClosed) connection.destroy();
        else idle.set(url.origin, [...(idle.get(url.origin) ?? []).filter((other) => other.isAlive), connection]);
      };
      const reply = await connection.send(request, url, release);
      // A server may close a connection that was idle: that says nothing about the request.
      if (reply === "stale" && kept !== undefined) continue;
      if (reply === "stale" || reply === "unusual") return undefined;
      return reply;
    }
  };

  const transport: HttpTransport = {
    conditions: inner.conditions,
    async request(request) {
      const url = new URL(request.url);
      const isPlain = request.method === "GET" && request.body === undefined && !unusual.has(url.origin);
      if (!isPlain || findProxy(url, environment ?? process.env) !== undefined) return inner.request(request);
      try {
        const reply = await attempt(request, url);
        if (reply !== undefined) return reply;
      } catch (error) {
        request.signal.throwIfAborted();
        throw transportError(error, parseHttpUrl(request.url).label);
      }
      unusual.add(url.origin);
      return inner.request(request);
    },
  };
  return {
    ...transport,
    async close() {
      isClosed = true;
      for (const connections of idle.values()) for (const connection of connections) connection.destroy();
      idle.clear();
      await inner.close();
    },
  };
}
