import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Bytes } from "../../src/base/bytes.ts";

/** A request as a fault sees it. */
export interface FileRequest {
  /** Without the leading slash and the query. */
  readonly path: string;
  /** Inclusive, as on the wire. */
  readonly range: readonly [number, number] | undefined;
  readonly headers: IncomingMessage["headers"];
  /** 0 for the first request that the server got. */
  readonly index: number;
}

/** What to do instead of an honest answer. */
export interface FileFault {
  readonly status?: number;
  /** Undefined takes a header away. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** Replaces the body. */
  readonly body?: (honest: Bytes) => Bytes;
  /** Bytes of the body after which the connection is torn down. */
  readonly dropAfter?: number;
  /** Bytes a second, in pieces of a fiftieth of that. */
  readonly bytesPerSecond?: number;
  /** What the answer waits for. */
  readonly after?: Promise<unknown>;
  /** Sends the whole file with 200, whatever range was asked for. */
  readonly range?: "ignored";
}

export interface FileServer {
  /** With a slash at the end. */
  readonly url: string;
  readonly requests: readonly FileRequest[];
  /** Bytes of bodies that were handed to the system. */
  readonly servedBytes: number;
  setFile(path: string, bytes: Bytes): void;
  setFault(fault: ((request: FileRequest) => FileFault | undefined) | undefined): void;
  close(): Promise<void>;
}

/** A loopback web server for a folder of files in memory: ranges, If-Range, If-None-Match, and faults on demand. */
export async function startFileServer(initial: Readonly<Record<string, Bytes>>): Promise<FileServer> {
  const files = new Map(Object.entries(initial));
  const sockets = new Set<Socket>();
  const requests: FileRequest[] = [];
  const tally = { servedBytes: 0 };
  let fault: Parameters<FileServer["setFault"]>[0];
  const server = createServer((incoming, response) => {
    const request = describe(incoming, requests.length);
    requests.push(request);
    const found = fault?.(request) ?? {};
    const send = (): void => answer(request, response, { bytes: files.get(request.path), fault: found, tally });
    if (found.after === undefined) send();
    else void found.after.then(send);
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    requests,
    get servedBytes() {
      return tally.servedBytes;
    },
    setFile: (path, bytes) => void files.set(path, bytes),
    setFault: (next) => {
      fault = next;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

function describe(incoming: IncomingMessage, index: number): FileRequest {
  const match = /^bytes=(\d+)-(\d+)$/.exec(incoming.headers.range ?? "");
  const path = decodeURIComponent((incoming.url ?? "").replace(/^\//, "").replace(/\?.*$/, ""));
  const range = match === null ? undefined : ([Number(match[1]), Number(match[2])] as const);
  return { path, range, headers: incoming.headers, index };
}

interface Answer {
  readonly bytes: Bytes | undefined;
  readonly fault: FileFault;
  readonly tally: { servedBytes: number };
}

function answer(request: FileRequest, response: ServerResponse, { bytes, fault, tally }: Answer): void {
  if (bytes === undefined) return void response.writeHead(404, { "content-length": "0" }).end();
  const etag = `"${createHash("sha256").update(bytes).digest("hex").slice(0, 16)}"`;
  const { headers } = request;
  if (headers["if-none-match"] === etag) return void response.writeHead(304, { etag }).end();
  if (request.range !== undefined && request.range[0] >= bytes.byteLength) {
    return void response
      .writeHead(416, { "content-range": `bytes */${bytes.byteLength}`, "content-length": "0" })
      .end();
  }
  const isWhole = request.range === undefined || fault.range === "ignored" || (headers["if-range"] ?? etag) !== etag;
  const [first, last] = isWhole ? [0, bytes.byteLength - 1] : (request.range ?? [0, 0]);
  const end = Math.min(last + 1, bytes.byteLength);
  const honest = bytes.subarray(first, end);
  const body = fault.body?.(honest) ?? honest;
  const stated = {
    etag,
    "content-length": String(body.byteLength),
    ...(isWhole ? {} : { "content-range": `bytes ${first}-${end - 1}/${bytes.byteLength}` }),
    ...fault.headers,
  };
  const sent = Object.fromEntries(Object.entries(stated).filter(([, value]) => value !== undefined));
  response.writeHead(fault.status ?? (isWhole ? 200 : 206), sent);
  if (fault.dropAfter !== undefined) {
    tally.servedBytes += Math.min(fault.dropAfter, body.byteLength);
    response.write(body.subarray(0, fault.dropAfter), () => response.destroy());
  } else if (fault.bytesPerSecond !== undefined) {
    trickle(response, body, { step: Math.ceil(fault.bytesPerSecond / 50), tally });
  } else {
    tally.servedBytes += body.byteLength;
    response.end(body);
  }
}

function trickle(
  response: ServerResponse,
  body: Bytes,
  { step, tally }: { readonly step: number; readonly tally: { servedBytes: number } },
): void {
  let sent = 0;
  const next = (): void => {
    if (response.destroyed) return;
    if (sent >= body.byteLength) return void response.end();
    const piece = body.subarray(sent, sent + step);
    sent += piece.byteLength;
    tally.servedBytes += piece.byteLength;
    response.write(piece);
    setTimeout(next, 20);
  };
  next();
}
