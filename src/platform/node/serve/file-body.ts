import type { BigIntStats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { type Bytes, readMemory } from "../../../base/bytes.ts";
import { changedError } from "../files/source.ts";
import { isSameVersion } from "./preconditions.ts";

/** A run of bytes of the file, and the bytes to send before it. */
export interface FilePart {
  readonly prefix: Bytes;
  readonly offset: number;
  readonly byteLength: number;
}

/** The body of a 200 or 206, still on disk. */
export interface FileBody {
  readonly label: string;
  readonly handle: FileHandle;
  /** Stats of the version that the headers name. */
  readonly stats: BigIntStats;
  readonly parts: readonly FilePart[];
  readonly suffix: Bytes;
}

export function bodyLength({ parts, suffix }: FileBody): number {
  return parts.reduce((sum, { prefix, byteLength }) => sum + prefix.byteLength + byteLength, suffix.byteLength);
}

/**
 * Sends the body as fast as the client takes it, with at most two pieces in memory. Rejects if the client goes away, or
 * if the file is no longer the version that the headers name. The last piece waits for that check, so that a reply made
 * of two versions never looks complete.
 */
export async function sendFileBody(response: ServerResponse, body: FileBody, buffers: PieceBuffers): Promise<void> {
  const outlet = new Outlet(response);
  const reader = new PieceReader(body, buffers);
  try {
    for (let piece = await reader.next(); piece !== undefined; piece = await reader.next()) {
      if (piece.prefix.byteLength > 0) await outlet.write(piece.prefix);
      if (piece.isLast) await checkUnchanged(body);
      await outlet.write(piece.bytes);
      reader.release(piece);
    }
    if (body.suffix.byteLength > 0) await outlet.write(body.suffix);
  } finally {
    await reader.close();
  }
}

async function checkUnchanged({ handle, stats, label }: FileBody): Promise<void> {
  if (!isSameVersion(stats, await handle.stat({ bigint: true }))) throw changedError(label);
}

interface Piece {
  readonly buffer: Bytes;
  readonly bytes: Bytes;
  readonly prefix: Bytes;
  readonly isLast: boolean;
}

const NO_BYTES: Bytes = new Uint8Array(0);

/** Reads the parts piece by piece. While buffers are plenty, it reads one piece ahead of the one being sent. */
class PieceReader {
  readonly #body: FileBody;
  readonly #buffers: PieceBuffers;
  readonly #held = new Set<Bytes>();
  #part = 0;
  /** Bytes of the current part that were requested. */
  #done = 0;
  #ahead: Promise<Piece> | undefined;

  constructor(body: FileBody, buffers: PieceBuffers) {
    this.#body = body;
    this.#buffers = buffers;
  }

  async next(): Promise<Piece | undefined> {
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

  release({ buffer }: Piece): void {
    this.#held.delete(buffer);
    this.#buffers.give(buffer);
  }

  /** Gives back all buffers, after the last read into them has ended. */
  async close(): Promise<void> {
    await this.#ahead?.catch(() => undefined);
    for (const buffer of this.#held) this.#buffers.give(buffer);
    this.#held.clear();
  }

  #start(take: () => Bytes | undefined): Promise<Piece> | undefined {
    const { parts } = this.#body;
    const part = parts[this.#part];
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
    const isLast = this.#part >= parts.length;
    return this.#read(buffer, offset, byteLength).then((bytes) => ({ buffer, bytes, prefix, isLast }));
  }

  async #read(buffer: Bytes, offset: number, byteLength: number): Promise<Bytes> {
    const { handle, label } = this.#body;
    let done = 0;
    while (done < byteLength) {
      const { bytesRead } = await handle.read(buffer, done, byteLength - done, offset + done);
      if (bytesRead === 0) throw changedError(label);
      done += bytesRead;
    }
    return buffer.subarray(0, byteLength);
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
