import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { HttpRequest, HttpResponse } from "../../src/bytes/http/transport.ts";
import {
  type NodeTransport,
  type NodeTransportOptions,
  nodeTransport,
} from "../../src/platform/node/http/transport.ts";
import { startWireServer, type WireServer } from "./wire-server.ts";

/** A transport without proxies, closed with the test. */
export function make(options: NodeTransportOptions = {}): NodeTransport {
  const transport = nodeTransport({ environment: {}, connections: 4, ...options });
  onTestFinished(() => transport.close());
  return transport;
}

/** A web server that answers as told. */
export async function start(answer: Parameters<typeof createServer>[1]): Promise<{ server: Server; url: string }> {
  const server = createServer({}, answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/f` };
}

/** A server of bytes, closed with the test. */
export async function wire(answer: Parameters<typeof startWireServer>[0]): Promise<WireServer> {
  const server = await startWireServer(answer);
  onTestFinished(() => server.close());
  return server;
}

export async function bodyOf(response: HttpResponse): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of response.body) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces).toString();
}

export const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
export const get = (url: string, more: Partial<HttpRequest> = {}): HttpRequest => ({
  url,
  method: "GET",
  headers: {},
  signal: new AbortController().signal,
  ...more,
});
