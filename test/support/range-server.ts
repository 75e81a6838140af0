import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Bytes } from "../../src/base/bytes.ts";

/** One request as it arrived. */
export interface LoggedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Inclusive, as on the wire; undefined where the request had no Range. */
  readonly range: readonly [number, number] | undefined;
}

/** What a fault may do: answer the request itself, or change how the file is served, or neither. */
export interface FaultContext {
  readonly request: LoggedRequest;
  readonly response: ServerResponse;
  /** 0 for the first request that the server got. */
  readonly index: number;
  readonly bytes: Bytes;
}

/** Fields that replace what an honest server would send. */
export interface Tampering {
  readonly status?: number;
  /** Undefined values remove a header. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: Bytes;
  /** Bytes after which the connection is torn down. */
  readonly dropAfter?: number;
  /** Pieces of the body, and the pause between them. */
  readonly pieces?: { readonly byteLength: number; readonly delayMs: number };
}

/** "handled" where the fault has taken over the response; undefined for an honest answer. */
export type Fault = (context: FaultContext) => Tampering | "handled" | undefined;

export interface RangeServer {
  readonly url: string;
  readonly origin: string;
  readonly requests: readonly LoggedRequest[];
  /** Connections that were ever made. */
  readonly connectionCount: number;
  setFault(fault: Fault | undefined): void;
  /** `etag` if it is not that of the bytes: of a line that damages them. */
  setBytes(bytes: Bytes, etag?: string): void;
  close(): Promise<void>;
}

/**
 * A loopback web server with one file, stricter than real ones: a malformed or unsatisfiable range is an error,
 * range ends are inclusive, If-Range and If-None-Match are honoured, and every request is written down.
 */
export async function startRangeServer(bytes: Bytes, path = "/files/model.bin"): Promise<RangeServer> {
  const requests: LoggedRequest[] = [];
  const sockets = new Set<Socket>();
  let connectionCount = 0;
  let content = bytes;
  let fault: Fault | undefined;
  const server = createServer((incoming, response) => {
    const request = logRequest(incoming);
    requests.push(request);
    const outcome = fault?.({ request, response, index: requests.length - 1, bytes: content });
    if (outcome === "handled") return;
    answer(request, response, { content, path, tampering: outcome ?? {} });
  });
  server.on("connection", (socket) => {
    connectionCount++;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: origin + path,
    origin,
    requests,
    get connectionCount() {
      return connectionCount;
    },
    setFault: (next) => {
      fault = next;
    },
    setBytes: (next, etag) => {
      content = next;
      if (etag !== undefined) etags.set(next, etag);
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

const etags = new WeakMap<Bytes, string>();

/** The strong ETag that the server gives to these bytes. */
export function etagOf(bytes: Bytes): string {
  const known = etags.get(bytes) ?? `"${createHash("sha256").update(bytes).digest("hex").slice(0, 16)}"`;
  etags.set(bytes, known);
  return known;
}

function logRequest(incoming: IncomingMessage): LoggedRequest {
  const match = /^bytes=(\d+)-(\d+)$/.exec(incoming.headers.range ?? "");
  const range = match === null ? undefined : ([Number(match[1]), Number(match[2])] as const);
  return { method: incoming.method ?? "", path: incoming.url ?? "", headers: incoming.headers, range };
}

interface Service {
  readonly content: Bytes;
  readonly path: string;
  readonly tampering: Tampering;
}

function answer(request: LoggedRequest, response: ServerResponse, { content, path, tampering }: Service): void {
  const honest = honestReply(request, content, path);
  const headers = { ...honest.headers, ...tampering.headers };
  const body = tampering.body ?? honest.body;
  response.statusCode = tampering.status ?? honest.status;
  if (!("content-length" in headers) && response.statusCode !== 304) {
    headers["content-length"] = String(body.byteLength);
  }
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) response.setHeader(name, value);
  // Without a length the body is chunked; node:http would otherwise add one.
  if (headers["content-length"] === undefined) response.flushHeaders();
  if (request.method === "HEAD") response.end();
  else if (tampering.dropAfter !== undefined) drop(response, body.subarray(0, tampering.dropAfter));
  else if (tampering.pieces !== undefined) trickle(response, body, tampering.pieces);
  else response.end(body);
}

interface Reply {
  readonly status: number;
  readonly headers: Record<string, string | undefined>;
  readonly body: Bytes;
}

function honestReply(request: LoggedRequest, content: Bytes, path: string): Reply {
  const headers: Record<string, string | undefined> = { "accept-ranges": "bytes", etag: etagOf(content) };
  if (request.path.split("?")[0] !== path) return textReply(404, "no such file");
  if (request.method !== "GET" && request.method !== "HEAD") return textReply(405, "GET or HEAD");
  if (request.headers["if-none-match"] === headers["etag"]) return { status: 304, headers, body: new Uint8Array(0) };
  const condition = request.headers["if-range"];
  const isStale = condition !== undefined && condition !== headers["etag"];
  if (request.headers["range"] === undefined || isStale || request.method === "HEAD") {
    return { status: 200, headers: { ...headers, "content-length": String(content.byteLength) }, body: content };
  }
  if (request.range === undefined) return textReply(400, "malformed range");
  const [first, last] = request.range;
  if (first > last) return textReply(400, "range runs backwards");
  if (first >= content.byteLength) {
    return { status: 416, headers: { "content-range": `bytes */${content.byteLength}` }, body: new Uint8Array(0) };
  }
  const end = Math.min(last, content.byteLength - 1);
  const range = `bytes ${first}-${end}/${content.byteLength}`;
  return { status: 206, headers: { ...headers, "content-range": range }, body: content.subarray(first, end + 1) };
}

function textReply(status: number, text: string): Reply {
  return { status, headers: { "content-type": "text/plain" }, body: new TextEncoder().encode(text) };
}

function drop(response: ServerResponse, body: Bytes): void {
  response.flushHeaders();
  response.write(body, () => response.destroy());
}

function trickle(response: ServerResponse, body: Bytes, pieces: NonNullable<Tampering["pieces"]>): void {
  let sent = 0;
  const next = (): void => {
    if (response.destroyed) return;
    if (sent >= body.byteLength) return void response.end();
    response.write(body.subarray(sent, sent + pieces.byteLength));
    sent += pieces.byteLength;
    setTimeout(next, pieces.delayMs);
  };
  next();
}
