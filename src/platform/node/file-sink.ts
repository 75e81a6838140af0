import { type FileHandle, lstat, readlink, realpath, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Bytes } from "../../base/bytes.ts";
import { SourceError, UsageError } from "../../base/errors.ts";
import { checkFill, checkReserve, doneError, type Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import { errnoOf, fileError } from "./errors.ts";
import { openFile } from "./file-source.ts";
import { FileWrites } from "./file-writes.ts";
import { checkOutsideVaults, refuseAddress } from "./output-place.ts";
import {
  createPartial,
  type Destination,
  publishExclusive,
  publishReplacing,
  removePartial,
  syncFolder,
} from "./partial-files.ts";
import { removeStalePartials } from "./stale-partials.ts";

export { abortAllSinks } from "./partial-files.ts";

/** "refuse" never touches an existing file; "replace" swaps it for the new one at commit. */
export type Overwrite = "refuse" | "replace";

export interface FileSinkOptions {
  readonly overwrite: Overwrite;
  /** A link in the way of a "replace": write to what it points to, or put the file in its place. */
  readonly links?: "follow" | "replace";
  /** Permission bits that a file which replaces nothing has at most, for what is as secret as something else. */
  readonly newMode?: number | undefined;
}

/** Opens a Sink that becomes the file `path` at commit. Its folder must exist. */
export async function fileSink(path: string, options: FileSinkOptions): Promise<Sink> {
  // Whoever calls may not have thought of it; a caller that can store in vaults has looked before.
  refuseAddress(path, "none");
  await checkOutsideVaults(path);
  try {
    const target = await findTarget(path, options);
    await removeStalePartials(target.path);
    const { path: partial, handle } = await createPartial(target);
    return new FileSink(handle, { label: path, partial, destination: target.path, overwrite: options.overwrite });
  } catch (error) {
    throw writeError(error, path);
  }
}

/** Where the bytes will really go; refuses what must not be replaced. */
async function findTarget(path: string, options: FileSinkOptions): Promise<Destination> {
  const full = resolve(path);
  const own = await lstat(full).catch(ifMissing);
  if (own === undefined) return { path: full, newMode: options.newMode };
  if (options.overwrite === "refuse") throw existsError(path);
  if (own.isSymbolicLink() && options.links === "replace") return { path: full };
  const existing = own.isSymbolicLink() ? await stat(full).catch(ifMissing) : own;
  if (existing === undefined) return { path: resolve(dirname(full), await readlink(full)) };
  if (existing.isDirectory()) throw directoryError(path);
  if (!existing.isFile()) throw specialError(path);
  return { path: await realpath(full), mode: existing.mode & 0o777 };
}

function ifMissing(error: unknown): undefined {
  if (errnoOf(error) === "ENOENT") return undefined;
  throw error;
}

interface Places {
  readonly label: string;
  readonly partial: string;
  readonly destination: string;
  readonly overwrite: Overwrite;
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
    // Nothing is written: a file reads as zeros where it was never written to.
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
    const { partial, destination, overwrite } = this.#places;
    await (overwrite === "replace" ? publishReplacing(partial, destination) : publishExclusive(partial, destination));
    this.#state = "committed";
    await syncFolder(dirname(destination));
  }

  async abort(): Promise<void> {
    // From here on the new name may be visible already: too late to take it back.
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
  if (errno === undefined) return error;
  if (errno === "EEXIST") return existsError(path);
  if (errno === "ENOENT") return missingFolderError(path, error);
  return fileError(error, `Cannot write "${path}"`, { source: path });
}

function existsError(path: string): UsageError {
  const message = `Cannot write "${path}": it exists already`;
  return new UsageError("usage/exists", message, { source: path }, { hint: "Choose another name, or pass --force" });
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
