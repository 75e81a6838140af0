import { type IncomingHttpHeaders, request } from "node:http";

export interface RawRequest {
  readonly method?: string;
  /** Sent as it is: nothing is encoded or normalised. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface RawReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders & Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** One request on a connection of its own. Rejects where the body ends before its Content-Length. */
export function requestRaw(
  origin: string,
  { method = "GET", path, headers = {}, body }: RawRequest,
): Promise<RawReply> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const outgoing = request({ hostname, port, method, path, headers, agent: false }, (incoming) => {
      const pieces: Buffer[] = [];
      incoming.on("data", (piece: Buffer) => pieces.push(piece));
      incoming.on("error", reject);
      incoming.on("end", () => {
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body: Buffer.concat(pieces) });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
