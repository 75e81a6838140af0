import { randomBytes } from "node:crypto";
import { close, constants, open as openDescriptor } from "node:fs";
import { type FileHandle, open, unlink } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { isMainThread } from "node:worker_threads";
import { type Bytes, readMemory } from "../../base/bytes.ts";
import { LimitError } from "../../base/errors.ts";
import { untilAborted } from "../../bytes/abort.ts";
import { fileError } from "./errors.ts";

/** Enough for any one weight file, and an end for `cat /dev/zero |`. */
const MAX_SPOOL_BYTES = 64 * 2 ** 30;
/** Devices that show bytes one by one may never end (/dev/zero), and none holds weights. */
export const MAX_DEVICE_BYTES = 64 * 2 ** 20;
const COPY_BYTES = 1 << 20;

export interface SpoolOptions {
  readonly maxSpoolBytes?: number | undefined;
  /** Where the copy lies; the system's folder for temporary files where absent. */
  readonly folder?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Copies what a pipe, device or procfs file delivers into a temporary file that has no name any more. */
export function spoolFile(handle: FileHandle, label: string, options: SpoolOptions): Promise<FileHandle> {
  return spool(readToEnd(handle, label, options.signal), label, options);
}

/**
 * Elsewhere than on Linux, a pipe that nobody has opened for writing looks as if it had ended. And what a thread of Node opens
 * and a socket closes, Node closes again when the thread ends, whosever it is by then.
 */
export const canWaitForPipes: boolean = process.platform === "linux" && isMainThread;

/**
 * The same for a named pipe, which nobody need write to: opening and reading one blocks a thread of the system for as long as
 * that, and no signal ends it. So it is opened without waiting, and the event loop waits for what comes.
 */
export function spoolPipe(path: string, label: string, options: SpoolOptions): Promise<FileHandle> {
  return spool(readPipe(path, label, options.signal), label, options);
}

export function spoolStdin(label: string, options: SpoolOptions): Promise<FileHandle> {
  return spool(process.stdin as AsyncIterable<Bytes>, label, options);
}

/** Copies pieces into a temporary file that has no name any more. */
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

async function* readPipe(path: string, label: string, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
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
    signal?.throwIfAborted(); // the end of the socket is what it ended with
    throw fileError(error, `Cannot read "${label}"`, at);
  } finally {
    signal?.removeEventListener("abort", stop);
    socket.destroy();
  }
  signal?.throwIfAborted();
}

/** The socket closes it; where there is none, it is closed here. */
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
    for await (const piece of pieces) {
      options.signal?.throwIfAborted();
      if (position + piece.byteLength > maxBytes) throw spoolError(label, maxBytes);
      position += await writeAll(handle, piece, { position, label, folder });
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
    throw fileError(error, `Cannot keep a copy of "${label}" in "${folder}"`, { source: label });
  }
}

async function writeAll(
  handle: FileHandle,
  piece: Bytes,
  { position, label, folder }: { readonly position: number; readonly label: string; readonly folder: string },
): Promise<number> {
  try {
    let done = 0;
    while (done < piece.byteLength) {
      done += (await handle.write(piece, done, piece.byteLength - done, position + done)).bytesWritten;
    }
    return done;
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
