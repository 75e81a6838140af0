import { type AddressInfo, createServer, type Socket } from "node:net";

/** A server that speaks bytes: what it answers need not be HTTP. */
export interface WireServer {
  readonly url: string;
  readonly origin: string;
  /** Heads and bodies as they arrived, one text for each connection. */
  readonly seen: readonly string[];
  readonly sockets: ReadonlySet<Socket>;
  close(): Promise<void>;
}

/** Calls `answer` for every complete request head; the number is that of the request, from 0. */
export async function startWireServer(
  answer: (socket: Socket, head: string, index: number) => void,
): Promise<WireServer> {
  const seen: string[] = [];
  const sockets = new Set<Socket>();
  let requests = 0;
  const server = createServer((socket) => {
    const place = seen.push("") - 1;
    let pending = "";
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => undefined);
    socket.on("data", (piece) => {
      seen[place] += piece.toString("latin1");
      pending += piece.toString("latin1");
      for (let end = pending.indexOf("\r\n\r\n"); end >= 0; end = pending.indexOf("\r\n\r\n")) {
        const head = pending.slice(0, end);
        const length = Number(/^content-length: (\d+)$/m.exec(head)?.[1] ?? 0);
        pending = pending.slice(end + 4 + length);
        answer(socket, head, requests++);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `${origin}/f`,
    origin,
    seen,
    sockets,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
