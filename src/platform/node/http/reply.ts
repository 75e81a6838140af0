import type { Bytes } from "../../../base/bytes.ts";

/** The status line and headers of a reply. */
export interface ReplyHead {
  readonly status: number;
  readonly version: "1.0" | "1.1";
  /** Names in lower case; the values of a header that comes several times are joined by commas (RFC 9110 §5.3). */
  readonly headers: ReadonlyMap<string, string>;
}

/** Longest head that is read; servers send less than a kilobyte. */
const MAX_HEAD_BYTES = 32 << 10;
/** Headers that must not come twice with different values: two readers would disagree about the message. */
const SINGLE: ReadonlySet<string> = new Set([
  "content-length",
  "content-range",
  "transfer-encoding",
  "etag",
  "last-modified",
  "location",
]);
const NOTHING = Buffer.alloc(0);

/** The bytes are not an HTTP/1 reply, or two readers could understand them in two ways. */
export class MalformedReply extends Error {
  override readonly name = "MalformedReply";
}

/**
 * Reads a status line and headers (RFC 9112 §4, §5), without the empty line at the end. Undefined if they are
 * malformed.
 */
export function parseReplyHead(text: string): ReplyHead | undefined {
  // A line that begins with blanks continues the one before (RFC 9112 §5.2).
  const [statusLine = "", ...lines] = text.replace(/\r\n[ \t]+/g, " ").split("\r\n");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is refused
  const match = /^HTTP\/(1\.[01]) ([1-5]\d\d)(?: [^\u0000-\u0008\u000a-\u001f\u007f]*)?$/.exec(statusLine);
  if (match === null) return undefined;
  const headers = new Map<string, string>();
  for (const line of lines) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is refused
    const field = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\u0000-\u0008\u000a-\u001f\u007f]*)$/.exec(line);
    if (field === null) return undefined;
    const name = (field[1] ?? "").toLowerCase();
    const value = (field[2] ?? "").trimEnd();
    const before = headers.get(name);
    if (before === undefined) headers.set(name, value);
    else if (!SINGLE.has(name)) headers.set(name, `${before}, ${value}`);
    else if (before !== value) return undefined;
  }
  return { status: Number(match[2]), version: match[1] === "1.0" ? "1.0" : "1.1", headers };
}

/** A complete head, and its end in the bytes that were added last. */
export interface FoundHead {
  readonly head: ReplyHead;
  readonly end: number;
}

/** Assembles the heads of replies, one after the other. */
export class ReplyHeads {
  /** The beginning of a head whose rest is still missing. */
  #begun: Buffer = NOTHING;

  /** Undefined while the head is incomplete. */
  add(bytes: Bytes): FoundHead | undefined {
    const before = this.#begun.byteLength;
    // Most heads come at once, with much of the body after them.
    const come = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const all = before === 0 ? come : Buffer.concat([this.#begun, come]);
    const end = all.indexOf("\r\n\r\n", Math.max(0, before - 3));
    if (end > MAX_HEAD_BYTES || (end < 0 && all.byteLength > MAX_HEAD_BYTES)) {
      throw new MalformedReply(`its head is longer than ${MAX_HEAD_BYTES} bytes`);
    }
    if (end < 0) {
      // Copy, because the socket writes to this memory again.
      this.#begun = before === 0 ? Buffer.from(come) : all;
      return undefined;
    }
    this.#begun = NOTHING;
    const head = parseReplyHead(all.toString("latin1", 0, end));
    if (head === undefined) throw new MalformedReply("its head is malformed");
    return { head, end: end + 4 - before };
  }
}

/** True if the connection can be reused after the body (RFC 9112 §9.3). */
export function keepsConnection({ version, headers }: ReplyHead): boolean {
  const options = (headers.get("connection") ?? "").toLowerCase().split(/[\s,]+/);
  if (options.includes("close")) return false;
  return version === "1.1" || options.includes("keep-alive");
}

/** Extracts the body from the bytes that arrive. */
export interface BodyReader {
  /** The bytes of the body among these, in the same memory. Throws if they contradict the head of the reply. */
  take(bytes: Bytes): Bytes;
  /** True when the whole body has arrived. */
  readonly isComplete: boolean;
  /** How many bytes are still to come, if known. */
  readonly toCome: number | undefined;
  /** The connection was closed in good order; true if that ends the body. */
  close(): boolean;
}

/** How the body of a reply is delimited (RFC 9112 §6.3). Throws if that is ambiguous. */
export function bodyReaderFor(head: ReplyHead, method: string): BodyReader {
  const { status, headers } = head;
  const coding = headers.get("transfer-encoding")?.toLowerCase();
  const length = headers.get("content-length");
  if (coding !== undefined && length !== undefined) throw new MalformedReply("it states its length in two ways");
  if (coding !== undefined && coding !== "chunked") throw new MalformedReply("its transfer coding is unknown");
  if (method === "HEAD" || status === 204 || status === 304) return new SizedBody(0);
  if (coding !== undefined) return new ChunkedBody();
  return length === undefined ? new BodyUntilClose() : new SizedBody(parseLength(length));
}

function parseLength(text: string): number {
  const length = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(length)) throw new MalformedReply("its Content-Length is no length");
  return length;
}

class SizedBody implements BodyReader {
  #toCome: number;

  constructor(byteLength: number) {
    this.#toCome = byteLength;
  }

  get toCome(): number {
    return this.#toCome;
  }

  get isComplete(): boolean {
    return this.#toCome === 0;
  }

  take(bytes: Bytes): Bytes {
    if (bytes.byteLength > this.#toCome) throw new MalformedReply("more bytes came than it announced");
    this.#toCome -= bytes.byteLength;
    return bytes;
  }

  close(): boolean {
    return this.isComplete;
  }
}

class BodyUntilClose implements BodyReader {
  readonly toCome = undefined;
  isComplete = false;

  take(bytes: Bytes): Bytes {
    return bytes;
  }

  close(): boolean {
    this.isComplete = true;
    return true;
  }
}

/** Longest line before a chunk: its length and extensions, which servers do not use. */
const MAX_CHUNK_LINE = 1024;
/** Most bytes of headers after the last chunk. */
const MAX_TRAILER_BYTES = 8 << 10;
const CR = 13;
const LF = 10;

/** RFC 9112 §7.1. Decodes within the memory of the input: the body is always shorter. */
class ChunkedBody implements BodyReader {
  readonly toCome = undefined;
  #state: "line" | "data" | "data-end" | "trailer" | "complete" = "line";
  /** The line so far, in "line", "data-end" and "trailer". */
  #line = "";
  #trailerBytes = 0;
  #left = 0;

  get isComplete(): boolean {
    return this.#state === "complete";
  }

  take(bytes: Bytes): Bytes {
    let end = 0;
    for (let at = 0; at < bytes.byteLength; ) {
      if (this.#state === "complete") throw new MalformedReply("more bytes came after its last chunk");
      if (this.#state !== "data") {
        at = this.#takeLine(bytes, at);
        continue;
      }
      const length = Math.min(this.#left, bytes.byteLength - at);
      if (end !== at) bytes.copyWithin(end, at, at + length);
      end += length;
      at += length;
      this.#left -= length;
      if (this.#left === 0) this.#state = "data-end";
    }
    return bytes.subarray(0, end);
  }

  close(): boolean {
    return this.isComplete;
  }

  /** Reads to the end of a line; returns where the next one begins. */
  #takeLine(bytes: Bytes, from: number): number {
    const found = bytes.indexOf(LF, from);
    const end = found < 0 ? bytes.byteLength : found + 1;
    if (this.#line.length + end - from > MAX_CHUNK_LINE)
      throw new MalformedReply("a line between its chunks is too long");
    for (let at = from; at < end; at++) {
      const byte = bytes[at] ?? 0;
      // Lines hold visible text: with control characters, another reader could understand the message differently.
      if (byte < 32 && byte !== 9 && byte !== CR && byte !== LF) throw new MalformedReply("a chunk is malformed");
      this.#line += String.fromCharCode(byte);
    }
    if (found < 0) return end;
    const line = this.#line;
    this.#line = "";
    if (!line.endsWith("\r\n") || line.indexOf("\r") !== line.length - 2)
      throw new MalformedReply("a chunk is malformed");
    this.#endLine(line.slice(0, -2));
    return end;
  }

  #endLine(line: string): void {
    if (this.#state === "data-end") {
      if (line !== "") throw new MalformedReply("a chunk is longer than it says");
      this.#state = "line";
    } else if (this.#state === "trailer") {
      this.#trailerBytes += line.length;
      if (this.#trailerBytes > MAX_TRAILER_BYTES)
        throw new MalformedReply("the headers after its last chunk are too long");
      if (line === "") this.#state = "complete";
    } else {
      const size = Number.parseInt(/^([0-9A-Fa-f]{1,14})[ \t]*(?:;|$)/.exec(line)?.[1] ?? "", 16);
      if (!Number.isSafeInteger(size)) throw new MalformedReply("the length of a chunk is no number");
      this.#left = size;
      this.#state = size === 0 ? "trailer" : "data";
    }
  }
}
