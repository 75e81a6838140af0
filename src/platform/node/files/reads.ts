import { constants, writeSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import type { NamedFile } from "../../../api/host.ts";
import { checkNamedLength } from "../../../api/input-use.ts";
import { type Bytes, concatBytes, readMemory } from "../../../base/bytes.ts";
import { LimitError, SourceError } from "../../../base/errors.ts";
import { piecesUntilAborted } from "../../../bytes/abort.ts";
import { bufferError } from "../../../bytes/layers/base.ts";
import { MAX_KEY_TEXT } from "../../../primitives/crypto/ed25519.ts";
import { errnoOf, fileError, ifMissing } from "../errors.ts";
import { namedFileError } from "../folders.ts";
import { strangeness } from "./own-folder.ts";

/** Reads of 4 MiB with a few in flight were the fastest measured: 14.9 GB/s against 8.8 one at a time. */
const PIECE_BYTES = 4 << 20;
const IN_FLIGHT = 4;
/** A stream's first piece: its reader often wants only a header. Later ones double up to PIECE_BYTES. */
const FIRST_PIECE_BYTES = 256 << 10;
/** Pieces being read while the consumer holds one. */
const READ_AHEAD = 3;

/** As `allocateBytes`, with a TareError if the system has no buffer of that length. */
export function allocateTarget(byteLength: number, label: string): Bytes {
  try {
    return allocateBytes(byteLength);
  } catch (cause) {
    throw bufferError(byteLength, label, cause);
  }
}

/** A separate buffer, never a view of Node's shared pool, which would leak bytes of other users of the pool. */
export function allocateBytes(byteLength: number): Bytes {
  return new Uint8Array(Buffer.allocUnsafeSlow(byteLength).buffer as ArrayBuffer);
}

/**
 * A short file of ours in a folder of ours; undefined if there is none, or if it is not a plain file. Does not follow a
 * link or wait for a pipe in its place, and reads at most `maxBytes`.
 */
export async function readOwnFile(path: string, maxBytes: number): Promise<Bytes | undefined> {
  const handle = await openInPlace(path).catch((error: unknown) => {
    if (["ENOENT", "ENXIO", "ELOOP"].includes(errnoOf(error) ?? "")) return undefined;
    throw fileError(error, `Cannot read "${path}"`, { source: path });
  });
  if (handle === undefined) return undefined;
  try {
    return await readShort(handle, path, maxBytes);
  } finally {
    await handle.close();
  }
}

/** What is beside a file under a name that only tare gives. */
export interface FileBeside {
  /** Undefined if there is nothing, or nothing that tare wrote. */
  readonly bytes?: Bytes | undefined;
  /** Completes "the file there …": why it is not believed. */
  readonly problem?: string | undefined;
}

/**
 * A short file that a writer of `neighbour` left beside it. In a folder that several users share, each of them can put a
 * file of any name there. So only a plain file counts that has one name, and belongs to us or to the owner of the
 * neighbour, who could write to that one anyway.
 */
export async function readFileBeside(path: string, neighbour: string, maxBytes: number): Promise<FileBeside> {
  const handle = await openInPlace(path).catch((error: unknown) => {
    const errno = errnoOf(error) ?? "";
    if (errno === "ENOENT") return undefined;
    if (errno === "ELOOP") return "is a link";
    if (errno === "ENXIO") return "is no plain file";
    if (errno === "EACCES" || errno === "EPERM") return "may not be read by this user";
    throw fileError(error, `Cannot read "${path}"`, { source: path });
  });
  if (handle === undefined) return {};
  if (typeof handle === "string") return { problem: handle };
  try {
    const owner = (await stat(neighbour).catch(ifMissing))?.uid;
    const problem = strangeness(await handle.stat(), owner);
    return problem === undefined ? { bytes: await readShort(handle, path, maxBytes) } : { problem };
  } catch (error) {
    throw fileError(error, `Cannot read "${path}"`, { source: path });
  } finally {
    await handle.close();
  }
}

function openInPlace(path: string): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0));
}

async function readShort(handle: FileHandle, path: string, maxBytes: number): Promise<Bytes | undefined> {
  const facts = await handle.stat();
  if (!facts.isFile() || facts.size > maxBytes) return undefined;
  const bytes = allocateBytes(facts.size);
  await readFully(handle, bytes, { offset: 0, label: path });
  return bytes;
}

export interface FileRange {
  readonly offset: number;
  readonly label: string;
  readonly signal?: AbortSignal | undefined;
}

/** Fills `target` from `offset`; settles only after the last read into it has ended. */
export async function readFully(handle: FileHandle, target: Bytes, range: FileRange): Promise<void> {
  if (target.byteLength <= 2 * PIECE_BYTES) return readPiece(handle, target, range);
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < target.byteLength) {
      const start = next;
      next += PIECE_BYTES;
      range.signal?.throwIfAborted();
      await readPiece(handle, target.subarray(start, start + PIECE_BYTES), { ...range, offset: range.offset + start });
    }
  };
  const stop = async (): Promise<void> => {
    try {
      await work();
    } catch (error) {
      next = target.byteLength;
      throw error;
    }
  };
  const results = await Promise.allSettled(Array.from({ length: IN_FLIGHT }, stop));
  for (const result of results) if (result.status === "rejected") throw result.reason;
}

async function readPiece(handle: FileHandle, target: Bytes, range: FileRange): Promise<void> {
  let done = 0;
  while (done < target.byteLength) {
    const position = range.offset + done;
    const bytesRead = await readSome(handle, target, { done, position, label: range.label });
    range.signal?.throwIfAborted();
    if (bytesRead === 0) throw truncatedError(range.label, position);
    done += bytesRead;
  }
}

interface Step {
  readonly done: number;
  readonly position: number;
  readonly label: string;
}

async function readSome(handle: FileHandle, target: Bytes, step: Step): Promise<number> {
  try {
    const { bytesRead } = await handle.read(target, step.done, target.byteLength - step.done, step.position);
    return bytesRead;
  } catch (error) {
    throw fileError(error, `Cannot read "${step.label}"`, { source: step.label, offset: step.position });
  }
}

function truncatedError(label: string, offset: number): SourceError {
  const message = `Cannot read "${label}": it ends at ${offset}, before the length it had when it was opened`;
  return new SourceError(
    "source/truncated",
    message,
    { source: label, offset },
    {
      hint: "Something shortened the file while it was read; run the command again when that is done",
    },
  );
}

/** Pieces in order with a few reads ahead; buffers are reused, so a piece is valid until the next one is requested. */
export async function* streamFile(
  handle: FileHandle,
  range: FileRange & { readonly byteLength: number },
): AsyncGenerator<Bytes> {
  const { label, signal } = range;
  const end = range.offset + range.byteLength;
  const buffers: Bytes[] = [];
  const pending: { readonly view: Bytes; readonly done: Promise<void> }[] = [];
  let position = range.offset;
  let pieceBytes = FIRST_PIECE_BYTES;
  const readAhead = (): void => {
    while (pending.length < READ_AHEAD && position < end) {
      const byteLength = Math.min(pieceBytes, end - position);
      const buffer = buffers.pop();
      const view = buffer !== undefined && buffer.byteLength >= byteLength ? buffer : readMemory(byteLength);
      const target = view.subarray(0, byteLength);
      const done = readPiece(handle, target, { offset: position, label, signal });
      done.catch(() => undefined); // a read ahead may fail before anyone awaits it; the loop below reports it
      pending.push({ view: target, done });
      position += byteLength;
      pieceBytes = Math.min(2 * pieceBytes, PIECE_BYTES);
    }
  };
  try {
    for (readAhead(); pending.length > 0; readAhead()) {
      const piece = pending[0] as (typeof pending)[number];
      await piece.done;
      pending.shift();
      signal?.throwIfAborted();
      yield piece.view;
      buffers.push(new Uint8Array(piece.view.buffer, piece.view.byteOffset));
    }
  } finally {
    await Promise.allSettled(pending.map((piece) => piece.done));
  }
}

/** Writes all of the bytes: the system may take fewer of them at a time. */
export async function writeAll(handle: Pick<FileHandle, "write">, bytes: Bytes, offset: number): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    done += (await handle.write(bytes, done, bytes.byteLength - done, offset + done)).bytesWritten;
  }
}

/** Tracks writes that may be pending when a draft ends. */
export class DraftFile {
  readonly handle: FileHandle;
  readonly label: string;
  readonly #pending = new Set<Promise<void>>();

  constructor(handle: FileHandle, label: string) {
    this.handle = handle;
    this.label = label;
  }

  write(offset: number, bytes: Bytes): Promise<void> {
    const write = this.#writeAll(offset, bytes).finally(() => this.#pending.delete(write));
    this.#pending.add(write);
    return write;
  }

  async read(offset: number, byteLength: number): Promise<Bytes> {
    const bytes = allocateBytes(byteLength);
    await readFully(this.handle, bytes, { offset, label: this.label });
    return bytes;
  }

  async settle(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }

  async #writeAll(offset: number, bytes: Bytes): Promise<void> {
    try {
      await writeAll(this.handle, bytes, offset);
    } catch (error) {
      throw fileError(error, `Cannot write "${this.label}"`, { source: this.label });
    }
  }
}

/** What copying reads at once. */
const COPY_BYTES = 1 << 20;

/** Copies the first bytes of a file into an open one, whose permissions stay as they are. */
export async function copyBytes(path: string, copy: Pick<FileHandle, "write">, byteLength: number): Promise<void> {
  const vault = await open(path, "r");
  try {
    const piece = allocateBytes(Math.min(COPY_BYTES, byteLength));
    for (let at = 0; at < byteLength; at += piece.byteLength) {
      const part = piece.subarray(0, Math.min(piece.byteLength, byteLength - at));
      await readFully(vault, part, { offset: at, label: path });
      await writeAll(copy, part, at);
    }
  } finally {
    await vault.close();
  }
}

/** Writes all of the bytes to an open file, with blocking calls. */
export function writeFully(descriptor: number, bytes: Bytes, at: number): void {
  for (let done = 0; done < bytes.byteLength; ) {
    done += writeSync(descriptor, bytes, done, bytes.byteLength - done, at + done);
  }
}

/** Reads no more than a key can have: the path may name a device, or a model. */
export async function readKeyText(path: string, signal?: AbortSignal | undefined): Promise<string> {
  const pieces: Bytes[] = [];
  let byteLength = 0;
  try {
    for await (const piece of piecesUntilAborted(filePieces(path, signal), signal)) {
      pieces.push(piece);
      byteLength += piece.byteLength;
      if (byteLength >= MAX_KEY_TEXT) break;
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw namedFileError(error, `Cannot read the key file "${path}"`, { source: path });
  }
  return new TextDecoder("latin1").decode(concatBytes(pieces).subarray(0, MAX_KEY_TEXT));
}

/** Metadata, vocabularies, digests of every tensor. No file that people write comes near it, and a device never ends. */
const MAX_FILE_BYTES = 64 << 20;
const FILE_PIECE_BYTES = 64 << 10;

export interface WholeFileOptions {
  /** Begins the error: "Cannot read the option metadata". */
  readonly action: string;
  readonly maxBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Reads a whole file that an option names, also a pipe. */
export function readWhole(path: string, options: WholeFileOptions): Promise<Bytes> {
  const { action, maxBytes = MAX_FILE_BYTES, signal } = options;
  const at = { source: path };
  const checkLength = (byteLength: number): void => {
    if (byteLength <= maxBytes) return;
    const hint = "Name a file that holds nothing else";
    const message = `${action}: must be <= ${maxBytes} bytes, found more`;
    throw new LimitError("limit/flag-file", message, at, { hint });
  };
  return readPath(path, { action, signal, checkLength });
}

/** Reads a whole file that an option names, also a pipe. A device never ends, so there is a limit. */
export function readNamedPath(path: string, what: NamedFile, signal: AbortSignal | undefined): Promise<Bytes> {
  const action = `Cannot read the option ${what.option}`;
  return readPath(path, { action, signal, checkLength: (byteLength) => checkNamedLength(byteLength, path, what) });
}

interface PathRead {
  readonly action: string;
  readonly signal: AbortSignal | undefined;
  /** Throws where there is more than may be read. */
  checkLength(byteLength: number): void;
}

/** An abort is answered at once: a pipe may have no writer, and a file may be on a server that is gone. */
async function readPath(path: string, { action, signal, checkLength }: PathRead): Promise<Bytes> {
  const pieces: Bytes[] = [];
  let byteLength = 0;
  try {
    for await (const piece of piecesUntilAborted(filePieces(path, signal), signal)) {
      byteLength += piece.byteLength;
      checkLength(byteLength);
      pieces.push(piece);
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw namedFileError(error, action, { source: path });
  }
  return concatBytes(pieces);
}

/** The bytes of a file or a pipe, each piece in memory of its own. */
async function* filePieces(path: string, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
  const facts = await stat(path).catch(() => undefined); // opening reports what is missing
  if (facts?.isFIFO() === true) {
    const { canWaitForPipes, readPipe } = await import("./spool.ts");
    if (canWaitForPipes) return yield* readPipe(path, path, signal);
  }
  const handle = await open(path);
  try {
    for (;;) {
      const piece = new Uint8Array(FILE_PIECE_BYTES);
      // From where the last read ended: pipes have no positions.
      const { bytesRead } = await handle.read(piece, 0, FILE_PIECE_BYTES, null);
      if (bytesRead === 0) return;
      yield piece.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}
