import { createServer, request as forward } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";

/** What the proxy was asked to do: "GET http://…" or "CONNECT host:port". */
export interface ProxyServer {
  readonly url: string;
  readonly requests: readonly { readonly line: string; readonly authorization: string | undefined }[];
  close(): Promise<void>;
}

export interface ProxyOptions {
  /** Answers every request with this status instead of passing it on. */
  readonly refuseWith?: number;
  /** Answers every plain request with a redirect there, as if the server had. */
  readonly redirectTo?: string;
}

/** A loopback proxy for plain requests and tunnels. */
export async function startProxyServer(options: ProxyOptions = {}): Promise<ProxyServer> {
  const requests: { line: string; authorization: string | undefined }[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((incoming, response) => {
    requests.push({
      line: `${incoming.method} ${incoming.url}`,
      authorization: incoming.headers["proxy-authorization"],
    });
    if (options.refuseWith !== undefined) return void response.writeHead(options.refuseWith).end();
    if (options.redirectTo !== undefined) {
      return void response.writeHead(302, { location: options.redirectTo }).end();
    }
    const onward = forward(incoming.url ?? "", { headers: incoming.headers, method: incoming.method }, (reply) => {
      response.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(response);
    });
    onward.on("error", () => response.destroy());
    onward.end();
  });
  server.on("connect", (incoming, socket: Socket) => {
    requests.push({ line: `CONNECT ${incoming.url}`, authorization: incoming.headers["proxy-authorization"] });
    if (options.refuseWith !== undefined) {
      socket.end(`HTTP/1.1 ${options.refuseWith} No\r\ncontent-length: 0\r\n\r\n`);
      return;
    }
    const [host, port] = (incoming.url ?? "").split(":");
    const onward = connect(Number(port), host, () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      onward.pipe(socket).pipe(onward);
    });
    sockets.add(onward);
    onward.on("error", () => socket.destroy());
  });
  server.on("connection", (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
