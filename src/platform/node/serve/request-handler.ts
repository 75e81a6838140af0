import type { IncomingMessage, ServerResponse } from "node:http";
import type { Access } from "./access.ts";
import { PIECE_BYTES, PieceBuffers, sendFileBody } from "./file-body.ts";
import { fileReply } from "./file-reply.ts";
import { folderReply } from "./listing.ts";
import { openServed, parseRequestPath, type RequestPath } from "./paths.ts";
import { versionOf } from "./preconditions.ts";
import { ALLOWED_METHODS, COMMON_HEADERS, contentLength, type Reply, textReply } from "./reply.ts";
import { StatedDigests } from "./stated-digests.ts";
import { viewerFileOf, viewerReply } from "./viewer-files.ts";

export interface HandlerOptions {
  /** The served folder, a real path. */
  readonly root: string;
  /** The server's address; known only once it listens. */
  readonly origin: () => string;
  readonly access: Access;
  /** Requests that may have a file open at the same time; others get 503. */
  readonly maxTransfers: number;
}

/** With this many bytes of buffers in use, transfers stop reading ahead. */
const READ_AHEAD_BYTES = 64 << 20;

const BUSY = textReply(503, "Too many transfers at once", { "retry-after": "1" });
/** RFC 9110 §15.5.20. The reply does not repeat the name, which came from a page that must not read here. */
const MISDIRECTED = textReply(421, "This server does not go by that name; see tare serve --help on --cors");
/** RFC 9112 §3.2: a proxy in front of this server must not read another host name from the request than this server. */
const AMBIGUOUS = textReply(400, "Cannot answer: the request names more than one host", { connection: "close" });
const NOT_FOUND = textReply(404, "No such file");

type NamedPath = Extract<RequestPath, { readonly kind: "path" }>;

/** Answers requests for the files of one folder, and holds the state that they share. */
export class RequestHandler {
  readonly #options: HandlerOptions;
  readonly #digests = new StatedDigests();
  readonly #buffers = new PieceBuffers(READ_AHEAD_BYTES / PIECE_BYTES);
  #transfers = 0;

  constructor(options: HandlerOptions) {
    this.#options = options;
  }

  /** Settles when the whole reply was sent. Rejects if either side cut it off. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url = "" } = request;
    const { access } = this.#options;
    if (namesSeveralHosts(request)) return this.#send(request, response, AMBIGUOUS);
    if (!access.knowsHost(request.headers.host)) return this.#send(request, response, MISDIRECTED);
    if (method === "OPTIONS") {
      const headers = { allow: ALLOWED_METHODS, ...access.preflightHeaders(request.headers) };
      return this.#send(request, response, { status: 204, headers, body: undefined });
    }
    if (method !== "GET" && method !== "HEAD") {
      // End the connection here, so that the server does not wait for a body that it does not want.
      const headers = { allow: ALLOWED_METHODS, connection: "close" };
      return this.#send(request, response, textReply(405, "This server only hands out files", headers));
    }
    const asset = viewerFileOf(url);
    if (asset !== undefined) return this.#send(request, response, (await viewerReply(asset)) ?? NOT_FOUND);
    const path = parseRequestPath(url);
    if (path.kind === "refused") {
      return this.#send(request, response, textReply(path.status, `Cannot answer: ${path.reason}`));
    }
    if (this.#transfers >= this.#options.maxTransfers) return this.#send(request, response, BUSY);
    this.#transfers++;
    try {
      await this.#answer(request, response, path);
    } finally {
      this.#transfers--;
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse, path: NamedPath): Promise<void> {
    const { root, origin } = this.#options;
    const { headers } = request;
    const served = await openServed(root, path.segments);
    if (served.kind === "folder") {
      return this.#send(request, response, await folderReply({ root, path, headers, origin: origin() }));
    }
    if (served.kind === "busy") return this.#send(request, response, BUSY);
    if (served.kind === "forbidden") {
      return this.#send(request, response, textReply(403, "The server may not read this file"));
    }
    if (served.kind === "missing") return this.#send(request, response, NOT_FOUND);
    try {
      // A path with a slash at the end cannot name a file.
      if (path.form === "folder") return await this.#send(request, response, NOT_FOUND);
      const now = Date.now();
      const digest = await this.#digests.find(served.path, served.stats, now);
      const version = versionOf(served.stats, digest, now);
      const method = request.method === "HEAD" ? "HEAD" : "GET";
      await this.#send(request, response, fileReply({ ...served, version }, { method, headers, now }));
    } finally {
      await served.handle.close();
    }
  }

  async #send(request: IncomingMessage, response: ServerResponse, reply: Reply): Promise<void> {
    const length = contentLength(reply);
    const counted = length === undefined ? {} : { "content-length": String(length) };
    const { vary, ...access } = this.#options.access.headersFor(request.headers);
    const varies = [reply.headers["vary"], vary].filter((name) => name !== undefined).join(", ");
    const headers = { ...COMMON_HEADERS, ...access, ...reply.headers, ...counted };
    response.writeHead(reply.status, varies === "" ? headers : { ...headers, vary: varies });
    const { body } = reply;
    if (body === undefined || request.method === "HEAD") response.end();
    else if ("parts" in body) {
      await sendFileBody(response, body, this.#buffers);
      response.end();
    } else response.end(body);
  }
}

/** True if there are two Host headers, or if the target has an authority other than the Host. */
function namesSeveralHosts({ url = "", headers, headersDistinct }: IncomingMessage): boolean {
  if ((headersDistinct["host"]?.length ?? 0) > 1) return true;
  const authority = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(url)?.[1];
  return authority !== undefined && authority.toLowerCase() !== headers.host?.toLowerCase();
}
