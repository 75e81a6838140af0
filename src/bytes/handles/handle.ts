import { SourceError, systemError, UsageError } from "../../base/errors.ts";
import { blobSource } from "../blob.ts";
import type { Source } from "../source.ts";

/**
 * The parts of FileSystemFileHandle and FileSystemDirectoryHandle that are used: a picked file, or one of the origin's
 * private file system. Declared here: the types of Node compile without those of the DOM.
 */
export interface FileHandle {
  readonly kind: "file";
  readonly name: string;
  getFile(): Promise<Blob>;
  createWritable?(): Promise<WritableStream>;
}

export interface DirectoryHandle {
  readonly kind: "directory";
  readonly name: string;
  getFileHandle(name: string, options?: { create?: boolean }): Promise<FileHandle>;
  getDirectoryHandle(name: string, options?: { create?: boolean }): Promise<DirectoryHandle>;
  keys?(): AsyncIterable<string>;
  removeEntry(name: string): Promise<void>;
}

export function isFileHandle(value: object): value is FileHandle {
  return "getFile" in value && typeof value.getFile === "function";
}

export function isDirectoryHandle(value: object): value is DirectoryHandle {
  return "getFileHandle" in value && typeof value.getFileHandle === "function";
}

/** The file of a handle, read by ranges. */
export async function fileHandleSource(handle: FileHandle): Promise<Source> {
  try {
    return blobSource(await handle.getFile(), handle.name);
  } catch (cause) {
    throw handleError(`Cannot read "${handle.name}"`, handle.name, cause);
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && error.name === "NotFoundError";
}

/** DOMExceptions as the errors that users of files know. */
const CODES: Readonly<Record<string, string>> = {
  NotAllowedError: "EACCES",
  NoModificationAllowedError: "EACCES",
  NotFoundError: "ENOENT",
  TypeMismatchError: "EISDIR",
  QuotaExceededError: "ENOSPC",
};

/** What a handle refused, as the errors that users of files know. */
export function handleError(what: string, source: string, cause: unknown): Error {
  if (cause instanceof SourceError || cause instanceof UsageError) return cause;
  const name = cause instanceof Error ? cause.name : "";
  return systemError(CODES[name] ?? "EIO", what, { source }, { cause });
}
