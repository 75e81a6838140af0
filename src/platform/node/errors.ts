import { realpathSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { errnoOf, type Location, SourceError, systemError } from "../../base/errors.ts";

export { errnoOf } from "../../base/errors.ts";

/**
 * Turns an error of node:fs into one of ours: `action` is the start of a sentence, "Cannot open \"x\"". Errors that are
 * not the fault of the system or of a file (one of our errors, an abort, a bug) are returned as they are.
 */
export function fileError(error: unknown, action: string, at: Location): unknown {
  const errno = errnoOf(error) ?? (codeOf(error) === "ERR_FS_FILE_TOO_LARGE" ? "EOVERFLOW" : undefined);
  if (isOfWorkingDirectory(error)) return workingDirectoryError(action, at.source, error);
  if (errno !== undefined) return systemError(errno, action, at, { cause: error });
  if (!isNulInPath(error)) return error;
  return new SourceError("source/not-found", `${action}: no file has a NUL character in its name`, at, {
    cause: error,
  });
}

/** For `catch`: undefined where there is no file. Every other error is thrown again. */
export function ifMissing(error: unknown): undefined {
  if (errnoOf(error) === "ENOENT") return undefined;
  throw error;
}

/** Node checks this before it asks the system. */
function isNulInPath(error: unknown): boolean {
  return codeOf(error) === "ERR_INVALID_ARG_VALUE" && /null bytes/.test((error as Error).message);
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

/** True if the folder that this process works in was removed: then no relative path leads anywhere. */
export function isWorkingDirectoryGone(): boolean {
  try {
    // By the system's own function: process.cwd() repeats what it once knew.
    realpathSync.native(".");
    return false;
  } catch (error) {
    return errnoOf(error) === "ENOENT";
  }
}

/** What the system says of a relative path in a folder that is gone is "no such file", which explains nothing. */
export function workingDirectoryError(action: string, source: string, cause?: unknown): SourceError {
  const message = `${action}: the working directory was removed`;
  const hint = "Change to a folder that exists, or give full paths";
  return new SourceError("source/not-found", message, { source }, { hint, cause });
}

/** The whole path of a file or folder that may be named from the working directory. */
export function fullPath(path: string): string {
  try {
    return resolve(path);
  } catch (error) {
    throw errnoOf(error) === "ENOENT" ? workingDirectoryError(`Cannot use "${path}"`, path, error) : error;
  }
}

/** True for an error of the system that comes of a relative path in a folder that is gone. */
function isOfWorkingDirectory(error: unknown): boolean {
  if (errnoOf(error) !== "ENOENT") return false;
  const { path, syscall } = error as { readonly path?: unknown; readonly syscall?: unknown };
  if (syscall === "uv_cwd") return true;
  return typeof path === "string" && !isAbsolute(path) && isWorkingDirectoryGone();
}
