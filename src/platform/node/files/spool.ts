import { randomBytes } from "node:crypto";
import { close, constants, open as openDescriptor } from "node:fs";
import { type FileHandle, open, unlink } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { isMainThread } from "node:worker_threads";
import { type Bytes, readMemory } from "../../../base/bytes.ts";
import { LimitError } from "../../../base/errors.ts";
import { piecesUntilAborted, untilAborted } from "../../../bytes/abort.ts";
import { fileError } from "../errors.ts";
import { writeAll } from "./reads.ts";

/** Enough for any single weight file, and an end for `cat /dev/zero |`. */
const MAX_SPOOL_BYTES = 64 * 2 ** 30;
/** Devices that give bytes one by one may never end (/dev/zero), and none holds weights. */
export const MAX_DEVICE_BYTES = 64 * 2 ** 20;
const COPY_BYTES = 1 << 20;

export interface SpoolOptions {
  readonly maxSpoolBytes?: number | undefined;
  /** Folder of the copy; the system's folder for temporary files if absent. */
  readonly folder?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Copies the bytes of a pipe, device or procfs file into a temporary file without a name. */
export function spoolFile(handle: FileHandle, label: string, options: SpoolOptions): Promise<FileHandle> {
  return spool(readToEnd(handle, label, options.signal), label, options);
}

/**
 * On systems other than Linux, a pipe without a writer looks as if it had ended. And if a thread of Node opens a
 * descriptor and a socket closes it, Node closes the number again when the thread ends, even if it belongs to another
 * file by then.
 */
export const canWaitForPipes: boolean = process.platform === "linux" && isMainThread;

/**
 * The same for a named pipe, which may have no writer: opening and reading it would block a system thread for that
 * long, and no signal ends it. So it is opened without waiting, and the event loop waits for its bytes.
 */
export function spoolPipe(path: string, label: string, options: SpoolOptions): Promise<FileHandle> {
  return spool(readPipe(path, label, options.signal), label, options);
}

export function spoolStdin(label: string, options: SpoolOptions): Promise<FileHandle> {
  return spool(process.stdin as AsyncIterable<Bytes>, label, options);
}

/** Copies pieces into a temporary file without a name. */
export function spoolPieces(pieces: AsyncIterable<Bytes>, label: string, options: SpoolOptions): Promise<FileHandle> {
  return spool(pieces, label, options);
}

async function* readToEnd(handle: FileHandle, label: string, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
  const buffer = readMemory(COPY_BYTES);
  for (;;) {
    const reading = handle.read(buffer, 0, COPY_BYTES, null).catch((error: unknown) => {
      throw fileError(error, `Cannot read "${label}"`, { source: label });
    });
    const { bytesRead } = await untilAborted(reading, signal);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}

/** The bytes of a named pipe; each piece has memory of its own. */
export async function* readPipe(path: string, label: string, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
  const at = { source: label };
  const descriptor = await promisify(openDescriptor)(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(
    (error: unknown) => {
      throw fileError(error, `Cannot open "${path}"`, at);
    },
  );
  const socket = takeDescriptor(descriptor, label);
  const stop = (): void => void socket.destroy();
  signal?.addEventListener("abort", stop, { once: true });
  try {
    if (signal?.aborted !== true) for await (const piece of socket) yield piece as Bytes;
  } catch (error) {
    signal?.throwIfAborted(); // the abort ended the socket
    throw fileError(error, `Cannot read "${label}"`, at);
  } finally {
    signal?.removeEventListener("abort", stop);
    socket.destroy();
  }
  signal?.throwIfAborted();
}

/** The socket closes the descriptor; if there is none, it is closed here. */
function takeDescriptor(descriptor: number, label: string): Socket {
  try {
    return new Socket({ fd: descriptor, readable: true, writable: false });
  } catch (error) {
    close(descriptor);
    throw fileError(error, `Cannot read "${label}"`, { source: label });
  }
}

async function spool(pieces: AsyncIterable<Bytes>, label: string, options: SpoolOptions): Promise<FileHandle> {
  const maxBytes = options.maxSpoolBytes ?? MAX_SPOOL_BYTES;
  const folder = options.folder ?? tmpdir();
  const handle = await openNameless(label, folder);
  try {
    let position = 0;
    for await (const piece of piecesUntilAborted(pieces, options.signal)) {
      if (position + piece.byteLength > maxBytes) throw spoolError(label, maxBytes);
      await keep(handle, piece, { position, label, folder });
      position += piece.byteLength;
    }
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function openNameless(label: string, folder: string): Promise<FileHandle> {
  const path = join(folder, `tare-spool-${process.pid}-${randomBytes(8).toString("hex")}`);
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, flags, 0o600);
    await unlink(path);
    return handle;
  } catch (error) {
    await handle?.close();
    // Its name must not stay either, if only taking it away has failed.
    if (handle !== undefined) await unlink(path).catch(() => undefined);
    throw fileError(error, `Cannot keep a copy of "${label}" in "${folder}"`, { source: label });
  }
}

async function keep(
  handle: FileHandle,
  piece: Bytes,
  { position, label, folder }: { readonly position: number; readonly label: string; readonly folder: string },
): Promise<void> {
  try {
    await writeAll(handle, piece, position);
  } catch (error) {
    throw fileError(error, `Cannot keep a copy of "${label}" in "${folder}"`, { source: label });
  }
}

function spoolError(label: string, maxBytes: number): LimitError {
  const message = `Cannot keep a copy of "${label}": it must deliver at most ${maxBytes} bytes`;
  return new LimitError(
    "limit/spool",
    message,
    { source: label },
    {
      hint: "Save it to a file and name that file instead",
    },
  );
}
