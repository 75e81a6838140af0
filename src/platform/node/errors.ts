import { errnoOf, type Location, SourceError, systemError } from "../../base/errors.ts";

export { errnoOf } from "../../base/errors.ts";

/**
 * Turns what node:fs throws into one of our errors: `action` is a whole sentence start, "Cannot open \"x\"". What is no
 * fault of the system or of a file (an error that is ours already, an abort, a mistake of ours) comes back as it is.
 */
export function fileError(error: unknown, action: string, at: Location): unknown {
  const errno = errnoOf(error) ?? (codeOf(error) === "ERR_FS_FILE_TOO_LARGE" ? "EOVERFLOW" : undefined);
  if (errno !== undefined) return systemError(errno, action, at, { cause: error });
  if (!isNulInPath(error)) return error;
  return new SourceError("source/not-found", `${action}: no file has a NUL character in its name`, at, {
    cause: error,
  });
}

/** Node looks for it before the system is asked. */
function isNulInPath(error: unknown): boolean {
  return codeOf(error) === "ERR_INVALID_ARG_VALUE" && /null bytes/.test((error as Error).message);
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
