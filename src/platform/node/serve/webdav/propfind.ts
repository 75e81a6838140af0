import type { IncomingMessage } from "node:http";
import { type Bytes, concatBytes } from "../../../../base/bytes.ts";
import { encodeUtf8 } from "../../../../base/text.ts";
import { mediaTypeOf } from "../file-reply.ts";
import { encodePath, type RequestPath } from "../paths.ts";
import { formatHttpDate } from "../preconditions.ts";
import { ALLOWED_METHODS, type Reply, textReply } from "../reply.ts";
import type { Facts, Found } from "../trees/tree.ts";
import { BadRequest, DAV_NAMESPACE, type PropertyName, type PropertyQuery, parsePropertyQuery } from "./request-xml.ts";

/** WebDAV class 1, without what writes (RFC 4918 §9, §18.1). */
export const WEBDAV_METHODS = `${ALLOWED_METHODS}, PROPFIND`;

/** A PROPFIND names a few properties; more is not read. */
const MAX_BODY_BYTES = 64 << 10;

export interface Propfind {
  readonly depth: "0" | "1" | "infinity";
  readonly query: PropertyQuery;
}

/** What a PROPFIND asks for, or the reply to one that cannot be answered. */
export async function readQuery(request: IncomingMessage): Promise<Propfind | Reply> {
  try {
    const query = parsePropertyQuery(await readBody(request));
    const depth = (request.headers["depth"] ?? "infinity").toString().trim().toLowerCase();
    if (depth === "0" || depth === "1" || depth === "infinity") return { depth, query };
    throw new BadRequest("Depth must be 0, 1 or infinity");
  } catch (error) {
    if (!(error instanceof BadRequest)) throw error;
    // The rest of a body that is too long is not read.
    const headers = request.complete ? {} : { connection: "close" };
    return textReply(400, `Cannot answer: ${error.message}`, headers);
  }
}

/** True if all of a body is read without harm: who sends it may get the reply on the same connection. */
export function hasShortBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] === undefined && Number(headers["content-length"] ?? 0) <= MAX_BODY_BYTES;
}

async function readBody(request: IncomingMessage): Promise<Bytes> {
  const tooLong = new BadRequest(`the body must have at most ${MAX_BODY_BYTES} bytes`);
  if (Number(request.headers["content-length"] ?? 0) > MAX_BODY_BYTES) throw tooLong;
  const pieces: Bytes[] = [];
  let byteLength = 0;
  // Leaving a loop over the request would destroy the connection before the reply is sent.
  await new Promise<void>((resolve, reject) => {
    request.on("data", (piece: Buffer) => {
      byteLength += piece.byteLength;
      if (byteLength <= MAX_BODY_BYTES) pieces.push(new Uint8Array(piece));
      else reject(tooLong);
    });
    request.once("end", resolve);
    request.once("error", reject);
    request.once("close", () => reject(new Error("the client went away")));
  });
  return concatBytes(pieces);
}

/** What a PROPFIND has found, and where. */
export interface Resource {
  readonly found: Found;
  readonly path: Extract<RequestPath, { readonly kind: "path" }>;
  /** Names before those of the tree in every address. */
  readonly base: readonly string[];
}

/** RFC 4918 §9.1: a list of properties of what was found and, with Depth 1, of what is in it. */
export function propfindReply({ depth, query }: Propfind, { found, path, base }: Resource): Reply {
  if (found.kind !== "file" && found.kind !== "folder") throw new Error("nothing was found");
  if (found.kind === "file" && path.form === "folder") return textReply(404, "No such file");
  if (found.kind === "folder" && depth === "infinity") return INFINITE;
  const names = [...base, ...path.segments];
  const writer = new ResponseWriter(query);
  const members = found.kind === "folder" && depth === "1" ? found.members?.() : undefined;
  const headers = { "content-type": "application/xml; charset=utf-8", "cache-control": "no-cache" };
  const pieces = inPieces(responsesOf(writer, { names, facts: found, members }));
  // Most lists are one piece, whose length is known.
  const first = pieces.next().value ?? new Uint8Array(0);
  const second = pieces.next();
  if (second.done === true) return { status: 207, headers, body: first };
  return { status: 207, headers, body: { pieces: joined([first, second.value], pieces) } };
}

function* joined(first: Iterable<Bytes>, rest: Iterable<Bytes>): Generator<Bytes> {
  yield* first;
  yield* rest;
}

/** RFC 4918 §9.1.1: a server may refuse to list everything below a folder in one reply. */
const INFINITE: Reply = {
  status: 403,
  headers: { "content-type": "application/xml; charset=utf-8" },
  body: encodeUtf8(
    '<?xml version="1.0" encoding="utf-8"?>\n<D:error xmlns:D="DAV:"><D:propfind-finite-depth/></D:error>\n',
  ),
};

interface Listed {
  readonly names: readonly string[];
  readonly facts: Facts;
  readonly members: Iterable<Facts> | undefined;
}

function* responsesOf(writer: ResponseWriter, { names, facts, members = [] }: Listed): Generator<string> {
  yield '<?xml version="1.0" encoding="utf-8"?>\n<D:multistatus xmlns:D="DAV:">\n';
  yield writer.response(encodePath(names, facts.kind), facts);
  const folder = encodePath(names, "folder");
  for (const member of members) {
    yield writer.response(folder + encodePath([member.name], member.kind).slice(1), member);
  }
  yield "</D:multistatus>\n";
}

/** Characters in a piece of a long list. */
const PIECE_CHARACTERS = 64 << 10;

function* inPieces(texts: Iterable<string>): Generator<Bytes> {
  let piece = "";
  for (const text of texts) {
    piece += text;
    if (piece.length < PIECE_CHARACTERS) continue;
    yield encodeUtf8(piece);
    piece = "";
  }
  if (piece !== "") yield encodeUtf8(piece);
}

/** The XML of a property, between its tags; undefined for what a file or folder does not have. */
type Property = (facts: Facts) => string | undefined;

/** RFC 4918 §15, without what only matters to those who write. */
const PROPERTIES: Readonly<Record<string, Property>> = {
  resourcetype: ({ kind }) => (kind === "folder" ? "<D:collection/>" : ""),
  displayname: ({ name }) => escapeXml(name),
  getcontentlength: (facts) => (facts.kind === "file" ? String(facts.byteLength) : undefined),
  getcontenttype: (facts) => (facts.kind === "file" ? mediaTypeOf(facts.name) : undefined),
  getlastmodified: (facts) => formatHttpDate(facts.kind === "file" ? facts.version.modified : facts.modified),
  getetag: (facts) => (facts.kind === "file" ? escapeXml(facts.version.etag) : undefined),
};

/** Writes what one query wants to know of many files and folders. */
class ResponseWriter {
  readonly #isOfNames: boolean;
  readonly #wanted: readonly string[];
  /** Elements of the properties that nothing has here. */
  readonly #unknown: string;
  /** What was named is answered also where it is missing; of everything, only what there is. */
  readonly #named: ReadonlySet<string>;

  constructor(query: PropertyQuery) {
    const given = query.kind === "names" ? [] : query.kind === "named" ? query.names : query.also;
    const known = given.filter(isKnown).map(({ local }) => local);
    this.#isOfNames = query.kind === "names";
    this.#named = new Set(known);
    this.#wanted = query.kind === "named" ? [...this.#named] : Object.keys(PROPERTIES);
    const unknown = new Map(given.filter((name) => !isKnown(name)).map((name) => [elementOf(name), name]));
    this.#unknown = [...unknown.keys()].join("");
  }

  response(href: string, facts: Facts): string {
    let found = "";
    let missing = "";
    for (const name of this.#wanted) {
      const value = PROPERTIES[name]?.(facts);
      if (value === undefined) missing += this.#named.has(name) ? `<D:${name}/>` : "";
      else found += this.#isOfNames || value === "" ? `<D:${name}/>` : `<D:${name}>${value}</D:${name}>`;
    }
    missing += this.#unknown;
    const isFound = found !== "" || missing === ""; // a response needs one group at least
    const parts =
      (isFound ? propstat(found, "200 OK") : "") + (missing === "" ? "" : propstat(missing, "404 Not Found"));
    return `<D:response><D:href>${href}</D:href>${parts}</D:response>\n`;
  }
}

function propstat(properties: string, status: string): string {
  return `<D:propstat><D:prop>${properties}</D:prop><D:status>HTTP/1.1 ${status}</D:status></D:propstat>`;
}

function isKnown({ namespace, local }: PropertyName): boolean {
  return namespace === DAV_NAMESPACE && Object.hasOwn(PROPERTIES, local);
}

/** The reader has checked that the local name is one. */
function elementOf({ namespace, local }: PropertyName): string {
  if (namespace === DAV_NAMESPACE) return `<D:${local}/>`;
  return namespace === "" ? `<${local}/>` : `<x:${local} xmlns:x="${escapeXml(namespace)}"/>`;
}

/** Characters that no XML can have become U+FFFD. */
function escapeXml(text: string): string {
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: no XML has them
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu, "\ufffd")
      .replace(/[&<>"'\t\n\r]/g, (character) => `&#${character.charCodeAt(0)};`)
  );
}
