import type { Bytes } from "../../src/base/bytes.ts";
import { withHead } from "../../src/bytes/headed.ts";
import { parseHttpUrl } from "../../src/bytes/http-url.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { deliver, ReadGuard } from "../../src/bytes/read-guard.ts";
import type { PinnedFile } from "../../src/bytes/resolver.ts";
import type { ReadOptions, Source, StreamOptions } from "../../src/bytes/source.ts";

/** Requests that an overview takes of one file, at most; what follows is left to those who do it well. */
const FIRST_REQUESTS = 4;
/** No request asks for more: headers end before, and longer runs are worth cutting. */
const MAX_BYTES = 32 << 20;
/** Longer than this is not waited here: others know when to ask again. */
const PATIENCE_MS = 20_000;

/** What a reply, or an index, says about a file. */
export interface FileFacts {
  readonly byteLength: number;
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
}

/** The requests of a page, and the whole of what can be done about them when one is not answered as it should be. */
export interface Contact {
  readonly send: (url: string, range: string, signal: AbortSignal) => Promise<Response>;
  /** Opens the file anew. */
  readonly open: (url: string, pinned: PinnedFile | undefined, signal: AbortSignal | undefined) => Promise<Source>;
  /** Goes on with a file that is known. */
  readonly goOn: (url: string, facts: FileFacts) => Promise<Source>;
}

/**
 * Opens a file on a web server by as little script as may be: a server that answers the first ranges as it should is
 * believed, and everything else, from a redirect to a reply that is cut short, is left to the library's own reading of
 * addresses, which is loaded then, or when somebody reads on behind the overview.
 */
export async function openByFirstRanges(
  url: string,
  headBytes: number,
  contact: Contact,
  { pinned, signal }: { readonly pinned?: PinnedFile | undefined; readonly signal?: AbortSignal | undefined },
): Promise<Source> {
  const address = parseHttpUrl(url);
  const isPlain = address.authorization === undefined;
  const again = (): Promise<Source> => contact.open(url, pinned, signal);
  if (!isPlain) return again();
  if (pinned !== undefined) {
    const { byteLength } = pinned;
    return new FirstRanges(address, { byteLength, etag: undefined, lastModified: undefined }, { contact, again });
  }
  const reply = await ask(contact, address.url, { offset: 0, byteLength: headBytes }, signal);
  const [, last, total] = /^bytes 0-(\d{1,15})\/(\d{1,15})$/.exec(reply?.headers.get("content-range") ?? "") ?? [];
  const byteLength = Number(total);
  if (reply === undefined || Number(last) !== Math.min(headBytes, byteLength) - 1) {
    drop(reply);
    return again();
  }
  const head = await bodyOf(reply, Number(last) + 1, signal);
  if (head === undefined) return again();
  if (head.byteLength === byteLength) return memorySource(head, address.label);
  const facts = { byteLength, ...versionOf(reply) };
  return withHead(new FirstRanges(address, facts, { contact }), head);
}

interface Run {
  readonly offset: number;
  readonly byteLength: number;
}

interface GoingOn {
  readonly contact: Contact;
  /** For a file that was never asked for: opens it. */
  readonly again?: () => Promise<Source>;
}

class FirstRanges implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #url: string;
  readonly #contact: Contact;
  readonly #again: (() => Promise<Source>) | undefined;
  readonly #guard: ReadGuard;
  #facts: FileFacts;
  #proof: "unproven" | "proven";
  #left = FIRST_REQUESTS;
  #rest: Promise<Source> | undefined;

  constructor({ url, label }: { readonly url: string; readonly label: string }, facts: FileFacts, on: GoingOn) {
    this.label = label;
    this.byteLength = facts.byteLength;
    this.#url = url;
    this.#facts = facts;
    this.#contact = on.contact;
    this.#again = on.again;
    this.#proof = on.again === undefined ? "proven" : "unproven";
    this.#guard = new ReadGuard(label, facts.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const reply = await this.#first({ offset, byteLength }, options.signal);
    const bytes = reply === undefined ? undefined : await bodyOf(reply, byteLength, options.signal);
    this.#guard.checkOpen();
    if (bytes !== undefined) return deliver(bytes, options.into);
    return (await this.#others()).read(offset, byteLength, options);
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const { signal } = options;
    const end = offset + this.#guard.checkStream(offset, options);
    const run = { offset, byteLength: Math.min(end - offset, MAX_BYTES) };
    let position = offset;
    const reply = await this.#first(run, signal);
    for await (const piece of piecesOf(reply, run.byteLength)) {
      signal?.throwIfAborted();
      this.#guard.checkOpen();
      position += piece.byteLength;
      yield piece;
    }
    signal?.throwIfAborted();
    if (position < end) yield* (await this.#others()).stream(position, { ...options, byteLength: end - position });
  }

  async close(): Promise<void> {
    this.#guard.close();
    const rest = await this.#rest?.catch(() => undefined);
    await rest?.close();
  }

  /** The reply to one of the first requests, where it is about these bytes of this very file. */
  async #first(run: Run, signal: AbortSignal | undefined): Promise<Response | undefined> {
    const isShort = run.byteLength > 0 && run.byteLength <= MAX_BYTES;
    if (!isShort || this.#rest !== undefined || this.#left-- <= 0) return undefined;
    const reply = await ask(this.#contact, this.#url, run, signal);
    if (reply !== undefined && this.#isOurs(reply, run)) return reply;
    drop(reply);
    return undefined;
  }

  #isOurs(reply: Response, { offset, byteLength: length }: Run): boolean {
    const { byteLength, etag, lastModified } = this.#facts;
    if (reply.headers.get("content-range") !== `bytes ${offset}-${offset + length - 1}/${byteLength}`) return false;
    const found = versionOf(reply);
    if (this.#proof === "proven" && (found.etag !== etag || found.lastModified !== lastModified)) return false;
    // The first reply for a file that an index described says which version all others must be from.
    this.#proof = "proven";
    this.#facts = { byteLength, ...found };
    return true;
  }

  #others(): Promise<Source> {
    this.#rest ??= this.#goOn().catch((error: unknown) => {
      this.#rest = undefined;
      throw error;
    });
    return this.#rest;
  }

  #goOn(): Promise<Source> {
    if (this.#proof === "unproven" && this.#again !== undefined) return this.#again();
    return this.#contact.goOn(this.#url, this.#facts);
  }
}

/** A range as it should be answered; undefined where it is not, whatever the reason. */
async function ask(
  contact: Contact,
  url: string,
  { offset, byteLength }: Run,
  signal: AbortSignal | undefined,
): Promise<Response | undefined> {
  try {
    const patience = AbortSignal.timeout(PATIENCE_MS);
    const either = signal === undefined ? patience : AbortSignal.any([signal, patience]);
    const reply = await contact.send(url, `bytes=${offset}-${offset + byteLength - 1}`, either);
    const isPlain = reply.status === 206 && !reply.redirected && !reply.headers.has("content-encoding");
    if (isPlain) return reply;
    drop(reply);
  } catch {
    signal?.throwIfAborted(); // else the library finds out what it was
  }
  return undefined;
}

/** Nobody wants the rest of it. */
function drop(reply: Response | undefined): void {
  void reply?.body?.cancel().catch(() => undefined);
}

/** Exactly so many bytes, or undefined. */
async function bodyOf(
  reply: Response,
  byteLength: number,
  signal: AbortSignal | undefined,
): Promise<Bytes | undefined> {
  try {
    const body = new Uint8Array(await reply.arrayBuffer());
    return body.byteLength === byteLength ? body : undefined;
  } catch {
    signal?.throwIfAborted();
    return undefined; // cut off: asked for again
  }
}

/** The body as far as it comes, and no further than it may. */
async function* piecesOf(reply: Response | undefined, byteLength: number): AsyncGenerator<Bytes> {
  const reader = reply?.body?.getReader();
  let left = byteLength;
  try {
    while (reader !== undefined && left > 0) {
      const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }));
      if (done || value === undefined || value.byteLength > left) return;
      left -= value.byteLength;
      yield value as Bytes;
    }
  } finally {
    void reader?.cancel().catch(() => undefined);
  }
}

function versionOf({ headers }: Response): Pick<FileFacts, "etag" | "lastModified"> {
  const text = (name: string): string | undefined => headers.get(name)?.trim() || undefined;
  return { etag: text("etag"), lastModified: text("last-modified") };
}
