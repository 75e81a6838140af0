import type { ServerResponse } from "node:http";
import { type Bytes, readMemory } from "../../../base/bytes.ts";

/** A run of bytes of the file, and the bytes to send before it. */
export interface FilePart {
  readonly prefix: Bytes;
  readonly offset: number;
  readonly byteLength: number;
}

/** Bytes to send, after those of `prefix`. */
export interface Piece {
  readonly prefix: Bytes;
  readonly bytes: Bytes;
  readonly isLast: boolean;
}

/** The bytes of a file in one version. */
export interface FileContent {
  /** These parts in pieces, as fast as they are asked for. A piece is lent until the next one. */
  pieces(parts: readonly FilePart[], buffers: PieceBuffers): AsyncGenerator<Piece>;
  /** Rejects if the file is no longer the version that the headers name. */
  check(): Promise<void>;
}

/** The body of a 200 or 206, before it is read. */
export interface FileBody {
  readonly content: FileContent;
  readonly parts: readonly FilePart[];
  readonly suffix: Bytes;
}

export function bodyLength({ parts, suffix }: FileBody): number {
  return parts.reduce((sum, { prefix, byteLength }) => sum + prefix.byteLength + byteLength, suffix.byteLength);
}

/**
 * Sends the body as fast as the client takes it. Rejects if the client goes away, or if the file is no longer the
 * version that the headers name. The last piece waits for that check, so that a reply made of two versions never looks
 * complete.
 */
export async function sendFileBody(response: ServerResponse, body: FileBody, buffers: PieceBuffers): Promise<void> {
  const { content, parts, suffix } = body;
  const outlet = new Outlet(response);
  for await (const { prefix, bytes, isLast } of content.pieces(parts, buffers)) {
    if (prefix.byteLength > 0) await outlet.write(prefix);
    if (isLast) await content.check();
    await outlet.write(bytes);
  }
  if (suffix.byteLength > 0) await outlet.write(suffix);
}

/** Sends a body of unknown length, as fast as the client takes it. */
export async function sendPieces(response: ServerResponse, pieces: Iterable<Bytes>): Promise<void> {
  const outlet = new Outlet(response);
  for (const piece of pieces) await outlet.write(piece);
}

/** Fills `into` with the bytes from `offset` on; all of it, or it rejects. */
export type Fill = (into: Bytes, offset: number) => Promise<void>;

/** The parts in pieces of the shared buffers: at most two at a time. */
export async function* readPieces(
  parts: readonly FilePart[],
  fill: Fill,
  buffers: PieceBuffers,
): AsyncGenerator<Piece> {
  const reader = new PieceReader(parts, fill, buffers);
  try {
    for (let piece = await reader.next(); piece !== undefined; piece = await reader.next()) {
      yield piece;
      reader.release(piece);
    }
  } finally {
    await reader.close();
  }
}

interface BufferedPiece extends Piece {
  readonly buffer: Bytes;
}

const NO_BYTES: Bytes = new Uint8Array(0);

/** Reads the parts piece by piece. While buffers are plenty, it reads one piece ahead of the one being sent. */
class PieceReader {
  readonly #parts: readonly FilePart[];
  readonly #fill: Fill;
  readonly #buffers: PieceBuffers;
  readonly #held = new Set<Bytes>();
  #part = 0;
  /** Bytes of the current part that were requested. */
  #done = 0;
  #ahead: Promise<BufferedPiece> | undefined;

  constructor(parts: readonly FilePart[], fill: Fill, buffers: PieceBuffers) {
    this.#parts = parts;
    this.#fill = fill;
    this.#buffers = buffers;
  }

  async next(): Promise<BufferedPiece | undefined> {
    const current = this.#ahead ?? this.#start(() => this.#buffers.take());
    this.#ahead = undefined;
    const piece = await current;
    if (piece !== undefined && !piece.isLast) {
      this.#ahead = this.#start(() => this.#buffers.takeSpare());
      // The next call of next() reports a failure.
      this.#ahead?.catch(() => undefined);
    }
    return piece;
  }

  release({ buffer }: BufferedPiece): void {
    this.#held.delete(buffer);
    this.#buffers.give(buffer);
  }

  /** Gives back all buffers, after the last read into them has ended. */
  async close(): Promise<void> {
    await this.#ahead?.catch(() => undefined);
    for (const buffer of this.#held) this.#buffers.give(buffer);
    this.#held.clear();
  }

  #start(take: () => Bytes | undefined): Promise<BufferedPiece> | undefined {
    const part = this.#parts[this.#part];
    const buffer = part === undefined ? undefined : take();
    if (part === undefined || buffer === undefined) return undefined;
    this.#held.add(buffer);
    const offset = part.offset + this.#done;
    const byteLength = Math.min(PIECE_BYTES, part.byteLength - this.#done);
    const prefix = this.#done === 0 ? part.prefix : NO_BYTES;
    this.#done += byteLength;
    if (this.#done >= part.byteLength) {
      this.#part++;
      this.#done = 0;
    }
    const isLast = this.#part >= this.#parts.length;
    const bytes = buffer.subarray(0, byteLength);
    return this.#fill(bytes, offset).then(() => ({ buffer, bytes, prefix, isLast }));
  }
}

/** Makes writes settle: Node forgets the callbacks of queued writes when a connection is torn down. */
class Outlet {
  readonly #response: ServerResponse;
  #fail: ((error: Error) => void) | undefined;

  constructor(response: ServerResponse) {
    this.#response = response;
    response.once("close", () => this.#fail?.(goneError()));
  }

  /** Resolves when the system has taken the bytes; their buffer may then be used again. */
  write(bytes: Bytes): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#response.destroyed) return reject(goneError());
      this.#fail = reject;
      this.#response.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
  }
}

function goneError(): Error {
  return new Error("the client went away");
}

/**
 * Bytes read and sent at a time. Over loopback, 64 KiB cost a third more processor time per byte than 512 KiB, and
 * larger pieces gained nothing.
 */
export const PIECE_BYTES = 512 << 10;
/** Buffers kept for the next transfer. */
const KEPT = 32;

/**
 * Buffers of one length that transfers share, so that memory follows the number of transfers, not the number of
 * requests.
 */
export class PieceBuffers {
  readonly #free: Bytes[] = [];
  readonly #spareLimit: number;
  #taken = 0;

  /** `spareLimit`: with this many buffers in use, no transfer gets a second one. */
  constructor(spareLimit: number) {
    this.#spareLimit = spareLimit;
  }

  get taken(): number {
    return this.#taken;
  }

  take(): Bytes {
    this.#taken++;
    return this.#free.pop() ?? readMemory(PIECE_BYTES);
  }

  /** A second buffer for reading ahead; undefined while many transfers are under way. */
  takeSpare(): Bytes | undefined {
    return this.#taken < this.#spareLimit ? this.take() : undefined;
  }

  give(buffer: Bytes): void {
    this.#taken--;
    if (this.#free.length < KEPT) this.#free.push(buffer);
  }
}
