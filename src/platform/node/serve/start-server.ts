import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import { SourceError, type TareError, UsageError } from "../../../base/errors.ts";
import { errnoOf } from "../errors.ts";

/** One answered request. */
export interface AccessEntry {
  readonly client: string;
  readonly method: string;
  /** As sent, still encoded; "…" is in the place of the name that keeps an address secret. */
  readonly target: string;
  readonly status: number;
  /** Bytes of headers and body that were sent, without other replies on the same connection. */
  readonly byteLength: number;
  readonly milliseconds: number;
  /** "cut" if either side ended the connection before the reply was complete. */
  readonly outcome: "complete" | "cut";
  /** Why the server cut it, or failed. */
  readonly error: unknown;
}

/** How a server listens; its handler decides what it serves. */
export interface ListenOptions {
  /** Address to listen on; only this machine if absent. */
  readonly host?: string | undefined;
  /** 0 takes a free one. */
  readonly port?: number | undefined;
  readonly onRequest?: ((entry: AccessEntry) => void) | undefined;
  /** How long the head of a request may take. */
  readonly headerTimeoutMs?: number | undefined;
  /** How long a client may accept no bytes of a reply before the connection ends. */
  readonly stallTimeoutMs?: number | undefined;
}

/** Settles when the whole reply was sent. Rejects if either side cut it off. */
export interface Handler {
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
}

/** A server that listens. */
export interface RunningServer {
  /** "http://127.0.0.1:8008", without a slash at the end; reachable from this machine. */
  readonly url: string;
  readonly port: number;
  /** Where other machines find it; empty unless it listens on every address. */
  readonly networkUrls: readonly string[];
  /** Takes no more requests, gives replies `graceMs` (1 s) to finish, then ends them. May be called twice. */
  close(graceMs?: number): Promise<void>;
}

export const DEFAULT_PORT = 8008;
const LOOPBACK = "127.0.0.1";
const MAX_CONNECTIONS = 1024;
const HEADER_TIMEOUT_MS = 10_000;
const STALL_TIMEOUT_MS = 120_000;
/** Above the 60 s after which most proxies drop a connection: the client should drop it first. */
const KEEP_ALIVE_MS = 65_000;
const GRACE_MS = 1000;

/** Resolves when the server listens. Throws a TareError if the address cannot be used. */
export async function startServer(handler: Handler, options: ListenOptions): Promise<RunningServer> {
  const headersTimeout = options.headerTimeoutMs ?? HEADER_TIMEOUT_MS;
  const server = createServer(
    {
      headersTimeout,
      requestTimeout: Math.max(headersTimeout, 30_000),
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: Math.min(headersTimeout, 1000),
      noDelay: true,
    },
    (request, response) => void answer(handler, { request, response, onRequest: options.onRequest }),
  );
  server.maxConnections = MAX_CONNECTIONS;
  server.setTimeout(options.stallTimeoutMs ?? STALL_TIMEOUT_MS);
  const host = options.host ?? LOOPBACK;
  const { address, port } = await listen(server, host, options.port ?? DEFAULT_PORT);
  const url = urlOf(reachable(address), port);
  const networkUrls = isWildcard(address) ? networkAddresses(address).map((found) => urlOf(found, port)) : [];
  return { url, port, networkUrls, close: (graceMs = GRACE_MS) => closeServer(server, graceMs) };
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly onRequest: ListenOptions["onRequest"];
}

/** A failure of one request must not affect another, or end the process. */
async function answer(handler: Handler, { request, response, onRequest }: Exchange): Promise<void> {
  const started = performance.now();
  const { socket } = request;
  const sentBefore = socket.bytesWritten;
  let error: unknown;
  response.on("error", () => undefined); // "close" follows and is enough
  response.once("close", () => {
    onRequest?.({
      client: socket.remoteAddress ?? "",
      method: request.method ?? "",
      target: request.url ?? "",
      status: response.statusCode,
      byteLength: socket.bytesWritten - sentBefore,
      milliseconds: performance.now() - started,
      outcome: response.writableFinished ? "complete" : "cut",
      error,
    });
  });
  try {
    await handler.handle(request, response);
  } catch (thrown) {
    error = thrown;
    // Half a reply must not look complete: without the promised length, the client notices.
    if (response.headersSent) response.destroy();
    else response.writeHead(500, { "content-length": "0", connection: "close" }).end();
  }
}

function listen(server: Server, host: string, port: number): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(listenError(error, host, port)));
    server.listen({ host, port }, () => {
      server.removeAllListeners("error");
      // An error after listening, such as no free descriptors, is temporary: the connection waits in the system's
      // queue.
      server.on("error", () => undefined);
      resolve(server.address() as AddressInfo);
    });
  });
}

function listenError(error: unknown, host: string, port: number): TareError {
  const errno = errnoOf(error);
  const at = { source: `${host}:${port}` };
  if (errno === "EADDRINUSE" || errno === "EACCES") {
    const reason = errno === "EADDRINUSE" ? "another program listens there" : "ports below 1024 need privileges";
    return new SourceError("source/serve.port", `Cannot listen on port ${port} of "${host}": ${reason}`, at, {
      hint: "Pass the option port 0 to take a free one",
      cause: error,
    });
  }
  const message = `Cannot listen on "${host}": must be an address of this machine`;
  return new UsageError("usage/serve.host", message, at, {
    hint: "Pass the option host 127.0.0.1 for this machine alone, or the option host 0.0.0.0 for the network",
    cause: error,
  });
}

function closeServer(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), graceMs);
    // The callback also runs if the server is closed already.
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}

function isWildcard(address: string): boolean {
  return address === "0.0.0.0" || address === "::";
}

function reachable(address: string): string {
  return address === "0.0.0.0" ? LOOPBACK : address === "::" ? "::1" : address;
}

/** Link-local addresses are left out: they need a zone, which a URL cannot carry. */
function networkAddresses(wildcard: string): string[] {
  const found = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  const usable = found.filter(({ internal, family, address }) => {
    return !internal && (family === "IPv4" || (wildcard === "::" && !/^fe80:/i.test(address)));
  });
  return usable.map(({ address }) => address);
}

function urlOf(address: string, port: number): string {
  return `http://${isIPv6(address) ? `[${address}]` : address}:${port}`;
}
