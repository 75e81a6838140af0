import type { IncomingMessage, ServerResponse } from "node:http";
import { type Access, isSecret, type Login } from "./access.ts";
import { PIECE_BYTES, PieceBuffers, sendFileBody, sendPieces } from "./file-body.ts";
import { fileReply } from "./file-reply.ts";
import { folderReply } from "./listing.ts";
import { parseRequestPath, type RequestPath } from "./paths.ts";
import { ALLOWED_METHODS, COMMON_HEADERS, contentLength, type Reply, textReply } from "./reply.ts";
import type { Found, ServedTree } from "./trees/tree.ts";
import { viewerFileOf, viewerReply } from "./viewer-files.ts";
import { hasShortBody, propfindReply, readQuery, WEBDAV_METHODS } from "./webdav/propfind.ts";

export interface HandlerOptions {
  readonly tree: ServedTree;
  /** The server's address; known only once it listens. */
  readonly origin: () => string;
  readonly access: Access;
  /** The first name of every address that is answered; absent if all are. */
  readonly token?: string | undefined;
  /** Who may read; everybody if absent. */
  readonly login?: Login | undefined;
  /** Requests that may have a file open at the same time; others get 503. */
  readonly maxTransfers: number;
}

/** With this many bytes of buffers in use, transfers stop reading ahead. */
const READ_AHEAD_BYTES = 64 << 20;

const BUSY = textReply(503, "Too many transfers at once", { "retry-after": "1" });
const AWAY = textReply(503, "The vault cannot be opened for now", { "retry-after": "1" });
/** RFC 9110 §15.5.20. The reply does not repeat the name, which came from a page that must not read here. */
const MISDIRECTED = textReply(421, "This server does not go by that name; see tare serve --help on --cors");
/** RFC 9112 §3.2: a proxy in front of this server must not read another host name from the request than this server. */
const AMBIGUOUS = textReply(400, "Cannot answer: the request names more than one host", { connection: "close" });
const NOT_FOUND = textReply(404, "No such file");
const FORBIDDEN = textReply(403, "The server may not read this file");

/** Ends the connection, so that the server does not wait for a body that it does not want. */
const UNREAD = { connection: "close" };

type NamedPath = Extract<RequestPath, { readonly kind: "path" }>;

/** Answers requests for the files of one tree, and holds the state that they share. */
export class RequestHandler {
  readonly #options: HandlerOptions;
  readonly #buffers = new PieceBuffers(READ_AHEAD_BYTES / PIECE_BYTES);
  #transfers = 0;

  constructor(options: HandlerOptions) {
    this.#options = options;
  }

  /** Settles when the whole reply was sent. Rejects if either side cut it off. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url = "", headers } = request;
    const { access, tree, login } = this.#options;
    if (namesSeveralHosts(request)) return this.#send(request, response, AMBIGUOUS);
    if (!access.knowsHost(headers.host)) return this.#send(request, response, MISDIRECTED);
    const path = this.#pathOf(url);
    if (path === undefined) return this.#send(request, response, withUnread(NOT_FOUND, request));
    // A browser asks whether a page may send a password before it sends one.
    const isPreflight = method === "OPTIONS" && headers["access-control-request-method"] !== undefined;
    if (login?.admits(headers) === false && !isPreflight) {
      return this.#send(request, response, withUnread(login.refusal, request));
    }
    const isDav = tree.protocols === "webdav";
    const allow = isDav ? WEBDAV_METHODS : ALLOWED_METHODS;
    if (method === "OPTIONS") {
      const dav = isDav ? { dav: "1" } : {};
      const answers = { allow, ...dav, ...access.preflightHeaders(headers, login) };
      return this.#send(request, response, { status: 204, headers: answers, body: undefined });
    }
    if (method !== "GET" && method !== "HEAD" && !(isDav && method === "PROPFIND")) {
      return this.#send(request, response, textReply(405, "This server only hands out files", { allow, ...UNREAD }));
    }
    const asset = tree.front === "viewer" ? viewerFileOf(url) : undefined;
    if (asset !== undefined) return this.#send(request, response, (await viewerReply(asset)) ?? NOT_FOUND);
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

  /** What the target names in the tree; undefined for who does not know the secret of the address. */
  #pathOf(target: string): RequestPath | undefined {
    const { tree, token } = this.#options;
    const path = parseRequestPath(target, (name) => tree.hides(name));
    if (token === undefined || path.kind === "refused") return path;
    const [first, ...segments] = path.segments;
    return first !== undefined && isSecret(first, token) ? { ...path, segments } : undefined;
  }

  async #answer(request: IncomingMessage, response: ServerResponse, path: NamedPath): Promise<void> {
    const { tree } = this.#options;
    const query = request.method === "PROPFIND" ? await readQuery(request) : undefined;
    if (query !== undefined && "status" in query) return this.#send(request, response, query);
    const now = Date.now();
    const found = await tree.find(path.segments, now);
    try {
      const reply =
        query === undefined
          ? await this.#replyTo(request, path, found, now)
          : (refusalOf(found) ?? propfindReply(query, { found, path, base: this.#base }));
      await this.#send(request, response, reply);
    } finally {
      if ("release" in found) await found.release();
    }
  }

  async #replyTo(request: IncomingMessage, path: NamedPath, found: Found, now: number): Promise<Reply> {
    const { tree, origin } = this.#options;
    const { headers } = request;
    if (found.kind === "folder") {
      const site = { origin: origin(), base: this.#base, front: tree.front };
      return folderReply({ folder: found, path, headers, site });
    }
    // A path with a slash at the end cannot name a file.
    if (found.kind !== "file" || path.form === "folder") return refusalOf(found) ?? NOT_FOUND;
    const method = request.method === "HEAD" ? "HEAD" : "GET";
    return fileReply(found, { method, headers, now });
  }

  /** Names before those of the tree in every address. */
  get #base(): readonly string[] {
    const { token } = this.#options;
    return token === undefined ? [] : [token];
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
    } else if ("pieces" in body) {
      await sendPieces(response, body.pieces);
      response.end();
    } else response.end(body);
  }
}

/** The reply where there is nothing to hand out. */
function refusalOf({ kind }: Found): Reply | undefined {
  if (kind === "busy") return BUSY;
  if (kind === "away") return AWAY;
  if (kind === "forbidden") return FORBIDDEN;
  return kind === "missing" ? NOT_FOUND : undefined;
}

/**
 * A reply to a request whose body is not looked at. A client that is asked for its password sends the same request again: a
 * connection that ends under its body could take the question away.
 */
function withUnread(reply: Reply, request: IncomingMessage): Reply {
  return hasShortBody(request) ? reply : { ...reply, headers: { ...reply.headers, ...UNREAD } };
}

/** True if there are two Host headers, or if the target has an authority other than the Host. */
function namesSeveralHosts({ url = "", headers, headersDistinct }: IncomingMessage): boolean {
  if ((headersDistinct["host"]?.length ?? 0) > 1) return true;
  const authority = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(url)?.[1];
  return authority !== undefined && authority.toLowerCase() !== headers.host?.toLowerCase();
}
