import { type Location, SourceError, type TareError } from "../../base/errors.ts";

interface Mapping {
  readonly code: `source/${string}`;
  readonly reason: string;
  readonly hint?: string;
}

const NO_PERMISSION: Mapping = {
  code: "source/forbidden",
  reason: "permission denied",
  hint: "Check who owns the file and its folder",
};

const NO_SPACE: Mapping = {
  code: "source/no-space",
  reason: "no space left",
  hint: "Free some space, or write to another disk; what was there before is unchanged",
};

const TOO_MANY_FILES: Mapping = {
  code: "source/io",
  reason: "too many open files",
  hint: 'Raise the limit with "ulimit -n", or open fewer files at once',
};

/** What errno values mean to the person who named the file. Anything else is "source/io". */
const MAPPINGS: Readonly<Record<string, Mapping>> = {
  ENOENT: { code: "source/not-found", reason: "no such file" },
  ENOTDIR: { code: "source/not-found", reason: "a part of the path is not a folder" },
  EISDIR: { code: "source/is-directory", reason: "it is a folder" },
  EACCES: NO_PERMISSION,
  EPERM: NO_PERMISSION,
  EROFS: { code: "source/forbidden", reason: "the file system is read-only" },
  ENOSPC: NO_SPACE,
  EDQUOT: { ...NO_SPACE, reason: "the disk quota is used up" },
  EFBIG: { code: "source/no-space", reason: "the file system does not take files of that length" },
  EMFILE: TOO_MANY_FILES,
  ENFILE: TOO_MANY_FILES,
  ENAMETOOLONG: { code: "source/io", reason: "the name is too long" },
  ELOOP: { code: "source/io", reason: "too many symbolic links" },
  EIO: {
    code: "source/io",
    reason: "the disk reported an error",
    hint: "The disk may be failing: copy what you can and check it",
  },
};

/** The errno name of a Node error ("ENOENT"), or undefined. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  const { code } = error;
  return typeof code === "string" && /^E[A-Z0-9]+$/.test(code) ? code : undefined;
}

/** Turns what node:fs throws into a SourceError: `action` is a whole sentence start, "Cannot open \"x\"". */
export function fileError(error: unknown, action: string, at: Location): TareError {
  const errno = errnoOf(error);
  const mapping = errno === undefined ? undefined : MAPPINGS[errno];
  const reason = mapping?.reason ?? (errno === undefined ? "unexpected failure" : `the system says ${errno}`);
  return new SourceError(mapping?.code ?? "source/io", `${action}: ${reason}`, at, {
    hint: mapping?.hint,
    cause: error,
  });
}
