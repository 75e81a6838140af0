import { type FileHandle, lstat, readlink, realpath, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Bytes } from "../../../base/bytes.ts";
import { SourceError, UsageError } from "../../../base/errors.ts";
import { checkFill, checkReserve, doneError, existsError, type Sink } from "../../../bytes/sink.ts";
import type { Source } from "../../../bytes/source.ts";
import { errnoOf, fileError, fullPath, ifMissing } from "../errors.ts";
import { checkOutsideVaults, refuseAddress } from "./output-place.ts";
import {
  checkUnprotected,
  createPartial,
  type Destination,
  identityAt,
  isMountPoint,
  mountedError,
  newCopy,
  type Privacy,
  publishExclusive,
  publishReplacing,
  removePartial,
  sharedError,
  syncFolder,
  type WrittenFiles,
  withoutAccessList,
  withoutGroup,
} from "./partial-files.ts";
import { allocateBytes, writeAll } from "./reads.ts";
import { openFile } from "./source.ts";
import { removeStalePartials } from "./stale-files.ts";

export { abortAllSinks } from "./partial-files.ts";

/** "refuse" never touches an existing file; "replace" swaps it for the new one at commit. */
export type Overwrite = "refuse" | "replace";

export interface FileSinkOptions {
  readonly overwrite: Overwrite;
  /** For a link in the way of a "replace": write to its target, or replace the link itself. */
  readonly links?: "follow" | "replace" | undefined;
  /** Most permission bits of a new file. */
  readonly newMode?: number | undefined;
  /** The file that the output is a copy of, or holds parts of: it must be as private. */
  readonly like?: Privacy | undefined;
  /** "replace" for a file that must not outlive a change, even if it is write-protected. */
  readonly readOnly?: "replace" | undefined;
  /** The files that were written together with this one, which it must not replace. */
  readonly written?: WrittenFiles | undefined;
}

/** Refuses what `fileSink` would refuse to replace, before any work is done. */
export function checkReplaceable(path: string, links: FileSinkOptions["links"] = "follow"): Promise<void> {
  return checkOutput(path, { overwrite: "replace", links });
}

/** Refuses what `fileSink` would refuse with these options, before any work is done. */
export async function checkOutput(path: string, options: FileSinkOptions): Promise<void> {
  try {
    await findTarget(path, options);
  } catch (error) {
    throw writeError(error, path);
  }
}

/** Opens a Sink that becomes the file `path` at commit. Its folder must exist. */
export async function fileSink(path: string, options: FileSinkOptions): Promise<Sink> {
  // A safety net for callers that do not check; a caller that can store in vaults has checked before.
  refuseAddress(path, "none");
  await checkOutsideVaults(path);
  try {
    const target = await findTarget(path, options);
    await removeStalePartials(target.path);
    const { overwrite, written } = options;
    const isFree = written !== undefined && target.mode === undefined && (await identityAt(target.path)) === undefined;
    const { path: partial, handle } = await createPartial(target);
    // A file that takes a free name meanwhile is most likely one of this run.
    const publish = overwrite === "replace" && isFree ? "claim" : overwrite;
    return new FileSink(handle, { label: path, partial, destination: target.path, publish, written });
  } catch (error) {
    throw writeError(error, path);
  }
}

/** The file that will really be written; refuses files that must not be replaced. */
async function findTarget(path: string, options: FileSinkOptions): Promise<Destination> {
  const { like } = options;
  const target = await findPlace(path, options);
  if (like === undefined) return target;
  if (target.mode === undefined) return { path: target.path, ...newCopy(like) };
  // The group of the file that is replaced may be another one.
  const most = target.owner?.gid === like.owner.gid ? like.mode : withoutGroup(like.mode);
  return { ...target, mode: target.mode & ((await withoutAccessList(most, like.path)) | 0o600) };
}

async function findPlace(path: string, { overwrite, links, newMode, readOnly }: FileSinkOptions): Promise<Destination> {
  const full = fullPath(path);
  const own = await lstat(full).catch(ifMissing);
  if (own === undefined) return { path: full, newMode };
  if (overwrite === "refuse") throw existsError(path);
  if (own.isSymbolicLink() && links === "replace") return { path: full, newMode };
  const existing = own.isSymbolicLink() ? await stat(full).catch(ifMissing) : own;
  if (existing === undefined) return { path: resolve(dirname(full), await readlink(full)), newMode };
  if (existing.isDirectory()) throw directoryError(path);
  if (!existing.isFile()) throw specialError(path);
  if (readOnly === undefined) await checkUnprotected(full, path);
  const { uid, gid } = existing;
  const real = await realpath(full);
  // Publishing would fail, after all the work.
  if (await isMountPoint(real)) throw mountedError(path);
  return { path: real, mode: existing.mode & (newMode ?? 0o777) & 0o777, owner: { uid, gid } };
}

interface Places {
  readonly label: string;
  readonly partial: string;
  readonly destination: string;
  /** "claim" is for a name that was free: not even a "replace" may take it from another file. */
  readonly publish: Overwrite | "claim";
  readonly written: WrittenFiles | undefined;
}

class FileSink implements Sink {
  readonly label: string;
  readonly #handle: FileHandle;
  readonly #writes: FileWrites;
  readonly #places: Places;
  #position = 0;
  #state: "open" | "writing" | "publishing" | "committed" | "aborted" = "open";
  #committing: Promise<void> | undefined;

  constructor(handle: FileHandle, places: Places) {
    this.label = places.label;
    this.#handle = handle;
    this.#places = places;
    this.#writes = new FileWrites(handle);
  }

  get position(): number {
    return this.#position;
  }

  append(bytes: Bytes): Promise<void> {
    if (this.#state !== "open") return Promise.reject(doneError(this.label));
    const at = this.#position;
    this.#position += bytes.byteLength;
    return this.#writes.append(bytes, at).catch(this.#rethrow);
  }

  reserve(byteLength: number): number {
    if (this.#state !== "open") throw doneError(this.label);
    checkReserve(byteLength, this.label);
    const at = this.#position;
    // Nothing is written: unwritten parts of a file read as zeros.
    this.#position += byteLength;
    return at;
  }

  fill(offset: number, bytes: Bytes): Promise<void> {
    if (this.#state !== "open") return Promise.reject(doneError(this.label));
    try {
      checkFill(offset, bytes.byteLength, this);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#writes.fill(bytes, offset).catch(this.#rethrow);
  }

  async reopen(): Promise<Source> {
    if (this.#state !== "open") throw doneError(this.label);
    try {
      await this.#writes.finish();
      await this.#handle.truncate(this.#position);
    } catch (error) {
      throw writeError(error, this.label);
    }
    return openFile(this.#places.partial, { label: this.label });
  }

  commit(): Promise<void> {
    if (this.#state !== "open") return Promise.reject(doneError(this.label));
    this.#state = "writing";
    this.#committing = this.#commit();
    return this.#committing;
  }

  async #commit(): Promise<void> {
    try {
      await this.#writes.finish();
      // Room reserved at the very end was never written, so the file may still be too short.
      await this.#handle.truncate(this.#position);
      await this.#handle.sync();
      this.#checkNotAborted();
      await this.#handle.close();
      this.#checkNotAborted();
      this.#state = "publishing";
      await this.#publish();
    } catch (error) {
      await this.#drop();
      throw writeError(error, this.label);
    }
  }

  async #publish(): Promise<void> {
    const { partial, destination, publish, written } = this.#places;
    await written?.check(destination, this.label);
    await (publish === "replace" ? publishReplacing : publishExclusive)(partial, destination).catch(
      (error: unknown) => {
        throw publish === "claim" && errnoOf(error) === "EEXIST" ? sharedError(this.label) : error;
      },
    );
    this.#state = "committed";
    try {
      await written?.add(destination);
      await syncFolder(dirname(destination));
    } catch (error) {
      // The caller is told that there is no file. What was replaced cannot be brought back, so then the new one stays.
      if (publish !== "replace") await removePartial(destination).catch(() => undefined);
      throw error;
    }
  }

  async abort(): Promise<void> {
    // From here on the new name may be visible already: too late to undo it.
    if (this.#state === "publishing") await this.#committing?.catch(() => undefined);
    else await this.#drop();
  }

  async #drop(): Promise<void> {
    if (this.#state === "committed") return;
    this.#state = "aborted";
    await this.#writes.settle();
    await this.#handle.close();
    await removePartial(this.#places.partial);
  }

  #checkNotAborted(): void {
    if (this.#state === "aborted") throw doneError(this.label);
  }

  readonly #rethrow = (error: unknown): never => {
    throw writeError(error, this.label);
  };
}

function writeError(error: unknown, path: string): unknown {
  const errno = errnoOf(error);
  if (errno === "EEXIST") return existsError(path);
  if (errno === "ENOENT") return missingFolderError(path, error);
  return fileError(error, `Cannot write "${path}"`, { source: path });
}

function missingFolderError(path: string, cause: unknown): SourceError {
  const message = `Cannot write "${path}": its folder does not exist`;
  return new SourceError("source/not-found", message, { source: path }, { hint: "Make the folder first", cause });
}

function directoryError(path: string): SourceError {
  return new SourceError("source/is-directory", `Cannot write "${path}": it is a folder`, { source: path });
}

function specialError(path: string): UsageError {
  const message = `Cannot replace "${path}": it is a device, pipe or socket, not a file`;
  return new UsageError("usage/not-a-file", message, { source: path });
}

/** Shorter appends are collected, so that 100 000 small ones do not cost 100 000 system calls. */
const SMALL_BYTES = 256 << 10;
const STAGING_BYTES = 1 << 20;
/** Staging buffers that may wait for the disk before appends have to wait. */
const MAX_STAGING = 4;

/**
 * Positional writes to one file with several in flight. The first failure is kept and every later call reports it, so
 * that an append whose promise settled early still fails the whole write.
 */
export class FileWrites {
  readonly #handle: FileHandle;
  readonly #pending = new Set<Promise<void>>();
  readonly #free: Bytes[] = [];
  #staging: Bytes | undefined;
  #stagingStart = 0;
  #stagingLength = 0;
  #stagingCount = 0;
  #fills: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | undefined;
  #room: Promise<void> | undefined;

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** Writes at `position`, the end of the write before it. */
  append(bytes: Bytes, position: number): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure.error);
    if (bytes.byteLength >= SMALL_BYTES) {
      this.flush();
      return this.#track(writeAll(this.#handle, bytes, position));
    }
    return this.#stage(bytes, position);
  }

  /** Overwrites earlier bytes. Waits for earlier writes, because overlapping writes have no fixed order. */
  fill(bytes: Bytes, position: number): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure.error);
    this.flush();
    const before = [...this.#pending];
    this.#fills = this.#fills.then(async () => {
      await Promise.allSettled(before);
      await writeAll(this.#handle, bytes, position);
    });
    return this.#track(this.#fills);
  }

  /** Starts writing the collected bytes. */
  flush(): void {
    const staging = this.#staging;
    if (staging === undefined) return;
    const { stagingView, start } = { stagingView: staging.subarray(0, this.#stagingLength), start: this.#stagingStart };
    this.#staging = undefined;
    void this.#track(
      writeAll(this.#handle, stagingView, start).finally(() => {
        this.#free.push(staging);
      }),
    ).catch(() => undefined); // kept in #failure; the next call reports it
  }

  /** Resolves when everything is written, or rejects with the first failure. */
  async finish(): Promise<void> {
    this.flush();
    await this.settle();
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Resolves when no write is pending, failed or not. */
  async settle(): Promise<void> {
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
  }

  #stage(bytes: Bytes, position: number): Promise<void> {
    let rest = bytes;
    let at = position;
    while (rest.byteLength > 0) {
      const staging = this.#openStaging(at);
      const piece = rest.subarray(0, STAGING_BYTES - this.#stagingLength);
      staging.set(piece, this.#stagingLength);
      this.#stagingLength += piece.byteLength;
      at += piece.byteLength;
      rest = rest.subarray(piece.byteLength);
      if (this.#stagingLength === STAGING_BYTES) this.flush();
    }
    const mustWait = this.#free.length === 0 && this.#stagingCount >= MAX_STAGING && this.#pending.size > 0;
    return mustWait ? this.#nextRoom() : Promise.resolve();
  }

  /** One promise for all waiting calls: a race for each of 100 000 small appends would pile up on a few writes. */
  #nextRoom(): Promise<void> {
    this.#room ??= Promise.race(this.#pending).finally(() => {
      this.#room = undefined;
    });
    return this.#room;
  }

  /** The staging buffer, if its content ends at `position`; otherwise a new one that begins there. */
  #openStaging(position: number): Bytes {
    if (this.#staging !== undefined && this.#stagingStart + this.#stagingLength !== position) this.flush();
    if (this.#staging === undefined) {
      const reused = this.#free.pop();
      if (reused === undefined) this.#stagingCount++;
      this.#staging = reused ?? allocateBytes(STAGING_BYTES);
      this.#stagingStart = position;
      this.#stagingLength = 0;
    }
    return this.#staging;
  }

  #track(write: Promise<void>): Promise<void> {
    const tracked = write
      .catch((error: unknown) => {
        this.#failure ??= { error };
        throw error;
      })
      .finally(() => this.#pending.delete(tracked));
    this.#pending.add(tracked);
    // The caller may ignore this promise: the next call reports the failure in any case.
    tracked.catch(() => undefined);
    return tracked;
  }
}
