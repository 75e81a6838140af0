import { type BigIntStats, realpathSync, type Stats, statSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import type { Bytes } from "../../../base/bytes.ts";
import { SourceError } from "../../../base/errors.ts";
import { untilAborted } from "../../../bytes/abort.ts";
import { ReadGuard } from "../../../bytes/layers/base.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "../../../bytes/source.ts";
import { fileError, fullPath } from "../errors.ts";
import { namedFileError } from "../folders.ts";
import { allocateBytes, allocateTarget, readFully, streamFile } from "./reads.ts";
import { canWaitForPipes, MAX_DEVICE_BYTES, spoolFile, spoolPipe, spoolStdin } from "./spool.ts";

export interface OpenFileOptions {
  /** Shown in errors and progress; the path as given if absent. */
  readonly label?: string;
  /** Most bytes that a pipe or device may deliver before it is refused with `limit/spool`. */
  readonly maxSpoolBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** "refuse" for files that the user did not name: never wait for a pipe in their place. */
  readonly pipes?: "refuse" | undefined;
}

/**
 * Opens a file for random access. Pipes, devices and files whose length the system does not know are first
 * copied to an unlinked temporary file.
 */
export async function openFile(path: string, options: OpenFileOptions = {}): Promise<Source> {
  const label = options.label ?? path;
  const at = { source: label };
  if (path === "/dev/stdin") return openStdin({ ...options, label });
  options.signal?.throwIfAborted();
  const facts = await stat(path).catch(() => undefined); // opening reports a missing file
  if (options.pipes === "refuse") checkRegular(facts, path, label);
  if (facts?.isFIFO() === true && canWaitForPipes) {
    return spooledSource(await spoolPipe(path, label, options), label);
  }
  const handle = await openHandle(path, options.signal).catch((error: unknown) => {
    throw namedFileError(error, `Cannot open "${path}"`, at, path);
  });
  try {
    const stats = await handle.stat({ bigint: true });
    if (stats.isDirectory()) throw directoryError(path, label);
    if (stats.isFile() && !(await hasHiddenBytes(handle, stats))) {
      return new FileSource(handle, { path: fullPath(path), label, stats });
    }
    const maxSpoolBytes = options.maxSpoolBytes ?? (stats.isCharacterDevice() ? MAX_DEVICE_BYTES : undefined);
    const spooled = await spoolFile(handle, label, { ...options, maxSpoolBytes });
    await handle.close();
    return spooledSource(spooled, label);
  } catch (error) {
    const closing = handle.close();
    // Closing waits for a read of a pipe, which may never end.
    if (options.signal?.aborted === true) closing.catch(() => undefined);
    else await closing;
    throw fileError(error, `Cannot open "${path}"`, at);
  }
}

/** Opening a file on a server or a pipe may take any time: a caller that aborts need not wait. */
async function openHandle(path: string, signal: AbortSignal | undefined): Promise<FileHandle> {
  const opening = open(path, "r");
  try {
    return await untilAborted(opening, signal);
  } catch (error) {
    void opening.then(
      (handle) => handle.close(),
      () => undefined, // thrown below, or no longer of interest
    );
    throw error;
  }
}

function checkRegular(facts: Stats | undefined, path: string, label: string): void {
  if (facts === undefined || facts.isFile() || facts.isDirectory()) return;
  throw new SourceError("source/io", `Cannot open "${path}": it is a pipe or a device, not a file`, { source: label });
}

/** Standard input as a Source: the file itself if it is redirected from one, a spooled copy otherwise. */
export async function openStdin(options: OpenFileOptions = {}): Promise<Source> {
  const label = options.label ?? "standard input";
  const redirected = await open("/dev/fd/0", "r").catch(() => undefined);
  let maxSpoolBytes = options.maxSpoolBytes;
  if (redirected !== undefined) {
    const stats = await redirected.stat({ bigint: true }).catch(() => undefined); // it can still be read to its end
    if (stats?.isFile() === true && stats.size > 0n) {
      return new FileSource(redirected, { path: undefined, label, stats });
    }
    await redirected.close();
    if (stats?.isCharacterDevice() === true) maxSpoolBytes ??= MAX_DEVICE_BYTES;
  }
  return spooledSource(await spoolStdin(label, { ...options, maxSpoolBytes }), label);
}

/** True if the source's file was written to, cut or extended since it was opened. */
export async function hasFileChanged(source: Source): Promise<boolean> {
  return source instanceof FileSource && source.hasChanged();
}

/** Also the identity in descriptors: two files with the same identity hold the same bytes, barring malice. */
export function identityOf(stats: BigIntStats): string {
  return `${stats.dev}:${stats.ino}:${stats.size}:${stats.mtimeNs}`;
}

/** procfs and sysfs show regular files of length 0 that have content. */
async function hasHiddenBytes(handle: FileHandle, stats: BigIntStats): Promise<boolean> {
  if (stats.size > 0n) return false;
  const { bytesRead } = await handle.read(allocateBytes(1), 0, 1, 0);
  return bytesRead > 0;
}

function directoryError(path: string, label: string): SourceError {
  const at = { source: label };
  return new SourceError("source/is-directory", `Cannot open "${path}": it is a folder`, at, {
    hint: "Name a file in it",
  });
}

/** The error for a file that is not the one that was opened. */
export function changedError(label: string): SourceError {
  const message = `Cannot read "${label}": it was changed since it was opened`;
  return new SourceError("source/changed", message, { source: label }, { hint: "Run the command again" });
}

/** The Source over a spooled copy; closing it frees the copy. */
export async function spooledSource(handle: FileHandle, label: string): Promise<Source> {
  try {
    return new FileSource(handle, { path: undefined, label, stats: await handle.stat({ bigint: true }) });
  } catch (error) {
    await handle.close();
    throw fileError(error, `Cannot read "${label}"`, { source: label });
  }
}

interface FileFacts {
  /** Undefined if other threads cannot open the same bytes. */
  readonly path: string | undefined;
  readonly label: string;
  readonly stats: BigIntStats;
}

class FileSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly descriptor: SourceDescriptor | undefined;
  readonly #handle: FileHandle;
  readonly #identity: string;
  readonly #guard: ReadGuard;
  #closing: Promise<void> | undefined;

  constructor(handle: FileHandle, { path, label, stats }: FileFacts) {
    // File systems stop at 2^63 - 1, JavaScript at 2^53 - 1: no disk holds the difference.
    this.byteLength = Number(stats.size);
    this.label = label;
    this.#handle = handle;
    this.#identity = identityOf(stats);
    this.#guard = new ReadGuard(label, this.byteLength);
    const identity = this.#identity;
    const facts = { byteLength: this.byteLength, identity, modified: Number(stats.mtimeMs), number: handle.fd };
    this.descriptor = path === undefined ? undefined : { kind: "file", path, ...facts };
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const target = options.into ?? allocateTarget(byteLength, this.label);
    await readFully(this.#handle, target, { offset, label: this.label, signal: options.signal });
    return target;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    const pieces = streamFile(this.#handle, { offset, byteLength, label: this.label, signal: options.signal });
    for await (const piece of pieces) {
      yield piece;
      this.#guard.checkOpen();
    }
  }

  async hasChanged(): Promise<boolean> {
    this.#guard.checkOpen();
    const stats = await this.#handle.stat({ bigint: true }).catch((error: unknown) => {
      throw fileError(error, `Cannot read "${this.label}"`, { source: this.label });
    });
    return identityOf(stats) !== this.#identity;
  }

  close(): Promise<void> {
    this.#guard.close();
    this.#closing ??= this.#handle.close();
    return this.#closing;
  }
}

/** A sidecar that the user named may be a pipe, but a device never ends; longer sidecars must be files. */
const MAX_PIPED_BYTES = 256 << 20;

/** Opens a sidecar that the user "named", or a file that is "beside" another one under that name. */
export function openSidecarFile(
  path: string,
  origin: "named" | "beside",
  signal?: AbortSignal | undefined,
): Promise<Source> {
  return openFile(path, { signal, ...(origin === "named" ? { maxSpoolBytes: MAX_PIPED_BYTES } : { pipes: "refuse" }) });
}

/** Identifies a file independently of its names. */
export interface FileIdentity {
  readonly device: bigint;
  readonly inode: bigint;
}

/** Which file a path leads to; undefined if there is none. */
export function fileIdentity(path: string): FileIdentity | undefined {
  try {
    const { dev, ino } = statSync(realpathSync(path), { bigint: true });
    return { device: dev, inode: ino };
  } catch {
    return undefined;
  }
}
