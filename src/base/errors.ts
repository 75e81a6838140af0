import { hideSecrets } from "./text.ts";

/** Where a fault is, for a person with a hex editor. */
export interface Location {
  /** Source label: a path, a URL, "memory"; credentials are already stripped. */
  readonly source: string;
  /** Absolute byte offset in that source. */
  readonly offset?: number;
  /** How many bytes from `offset` on the fault concerns, if known: a page, a chunk, a tensor. */
  readonly byteLength?: number;
  /** The field as the format's specification spells it: "toc[3].chunk_offset". */
  readonly path?: string;
}

interface ErrorExtra {
  readonly hint?: string | undefined;
  /** For a file that is cut short: how long it would have to be. The bytes before its end may be intact. */
  readonly neededBytes?: number | undefined;
  readonly cause?: unknown;
}

/** What crosses a worker boundary and what `--json` prints. */
export interface ErrorJson {
  readonly type: "error";
  readonly name: string;
  readonly code: string;
  readonly message: string;
  readonly at: Location;
  readonly hint?: string;
  readonly transient?: boolean;
}

/**
 * Common shape of every error we throw. `code` is public API and never reworded; the six classes tell
 * a caller what it can do about the failure.
 */
export abstract class TareError<Kind extends string = string> extends Error {
  readonly code: `${Kind}/${string}`;
  readonly at: Location;
  readonly hint: string | undefined;
  readonly neededBytes: number | undefined;

  constructor(code: `${Kind}/${string}`, message: string, at: Location, extra: ErrorExtra = {}) {
    super(hideSecrets(message), extra.cause === undefined ? undefined : { cause: extra.cause });
    this.code = code;
    this.at = { ...at, source: hideSecrets(at.source) };
    this.hint = extra.hint === undefined ? undefined : hideSecrets(extra.hint);
    this.neededBytes = extra.neededBytes;
  }

  toJSON(): ErrorJson {
    const { name, code, message, at, hint } = this;
    return { type: "error", name, code, message, at, ...(hint === undefined ? {} : { hint }) };
  }
}

/** The bytes break a rule of their format: retrying cannot help, another copy might. */
export class FormatError extends TareError<"format"> {
  override readonly name = "FormatError";
}

/** The file could be legal but declares more than this reader is willing to hold. */
export class LimitError extends TareError<"limit"> {
  override readonly name = "LimitError";
}

/** A digest, checksum, MAC or tag does not match: the bytes are not the ones that were written. */
export class IntegrityError extends TareError<"integrity"> {
  override readonly name = "IntegrityError";
}

/** Legal or foreign content that this version does not handle, or that a conversion cannot carry. */
export class UnsupportedError extends TareError<"unsupported"> {
  override readonly name = "UnsupportedError";
}

/** The place the bytes come from or go to failed: I/O, HTTP. `transient` says whether a retry can help. */
export class SourceError extends TareError<"source"> {
  override readonly name = "SourceError";
  readonly transient: boolean;
  /** Seconds the server asked us to wait before asking again (Retry-After). */
  readonly retryAfter: number | undefined;

  constructor(
    code: `source/${string}`,
    message: string,
    at: Location,
    extra: ErrorExtra & { readonly transient?: boolean; readonly retryAfter?: number } = {},
  ) {
    super(code, message, at, extra);
    this.transient = extra.transient ?? false;
    this.retryAfter = extra.retryAfter;
  }

  override toJSON(): ErrorJson {
    return { ...super.toJSON(), transient: this.transient };
  }
}

/** The caller asked for something that makes no sense, or that is not there. */
export class UsageError extends TareError<"usage"> {
  override readonly name = "UsageError";
}

/** Tells an error that tare reports, which has a code, from a bug. Also true for errors of another copy of tare. */
export function isTareError(error: unknown): error is TareError {
  return error instanceof TareError;
}

/** The same error with another hint; what it was is its cause. */
export function withHint(error: FormatError | LimitError, hint: string): FormatError | LimitError {
  const extra = { hint, neededBytes: error.neededBytes, cause: error };
  return error instanceof FormatError
    ? new FormatError(error.code, error.message, error.at, extra)
    : new LimitError(error.code, error.message, error.at, extra);
}

const CLASSES = { FormatError, LimitError, IntegrityError, UnsupportedError, UsageError } as const;

/** Rebuilds an error that crossed a worker boundary, class and code intact. */
export function reviveError(json: ErrorJson): TareError {
  const extra = json.hint === undefined ? {} : { hint: json.hint };
  if (json.name === "SourceError") {
    return new SourceError(json.code as `source/${string}`, json.message, json.at, {
      ...extra,
      transient: json.transient ?? false,
    });
  }
  const Class = (CLASSES as Record<string, new (...args: ConstructorParameters<typeof TareError>) => TareError>)[
    json.name
  ];
  return new (Class ?? UsageError)(json.code as never, json.message, json.at, extra);
}

/**
 * The documented errors of one area. Every code thrown anywhere has an entry in one of these tables:
 * `tare explain CODE` and docs/errors.md are printed from them, and a test compares them with the code.
 */
export type ErrorCatalog = Readonly<Record<`${string}/${string}`, ErrorEntry>>;

export interface ErrorEntry {
  /** What happened, one sentence. */
  readonly what: string;
  /** Why this is refused, or how it usually comes about. */
  readonly why: string;
  /** What to do. */
  readonly fix: string;
  /** Set for codes that are never an error: the highest severity. They end no command, so they have no exit code. */
  readonly severity?: "warning" | "note";
}

/** What one error of the operating system means to the person who named the file. */
interface SystemError {
  readonly code: `source/${string}` | `usage/${string}`;
  /** Follows "Cannot open …: ". */
  readonly reason: string;
  readonly hint?: string;
}

const NO_PERMISSION: SystemError = {
  code: "source/forbidden",
  reason: "permission denied",
  hint: "Check who owns the file and its folder",
};

const NO_SPACE: SystemError = {
  code: "source/no-space",
  reason: "no space left",
  hint: "Free some space, or write to another disk; what was there before is unchanged",
};

const TOO_MANY_FILES: SystemError = {
  code: "source/io",
  reason: "too many open files",
  hint: 'Raise the limit with "ulimit -n", or open fewer files at once',
};

const DISK_ERROR: SystemError = {
  code: "source/io",
  reason: "the disk reported an error",
  hint: "The disk may be failing: copy what you can and check it",
};

const BUSY: SystemError = {
  code: "source/io",
  reason: "it is in use",
  hint: "Something else holds it, as a running program or a mount does: run the command again when that is done",
};

const NO_DEVICE: SystemError = { code: "source/io", reason: "there is no such device" };

const LOST_MOUNT: SystemError = {
  code: "source/io",
  reason: "the network file system does not know it any more",
  hint: "Mount it again, then run the command again",
};

const NOT_OFFERED: SystemError = { code: "source/io", reason: "the file system does not offer this" };

const NO_MEMORY: SystemError = { code: "source/io", reason: "the system has no memory left" };

/**
 * Errors of the operating system by their POSIX names: one sentence and one code each, wherever they occur. An unlisted
 * error gets the code "source/io", and its message gives the name.
 */
export const SYSTEM_ERRORS: Readonly<Record<string, SystemError>> = {
  ENOENT: { code: "source/not-found", reason: "no such file" },
  ENOTDIR: { code: "source/not-found", reason: "a part of the path is not a folder" },
  EISDIR: { code: "source/is-directory", reason: "it is a folder" },
  EEXIST: { code: "usage/exists", reason: "it exists already", hint: "Choose another name, or pass the option force" },
  ENOTEMPTY: { code: "source/io", reason: "the folder is not empty" },
  EACCES: NO_PERMISSION,
  EPERM: NO_PERMISSION,
  EROFS: { code: "source/forbidden", reason: "the file system is read-only" },
  ENOSPC: NO_SPACE,
  EDQUOT: { ...NO_SPACE, reason: "the disk quota is used up" },
  EFBIG: { code: "source/no-space", reason: "the file system does not take files of that length" },
  EMFILE: TOO_MANY_FILES,
  ENFILE: { ...TOO_MANY_FILES, reason: "too many open files in the whole system" },
  ENAMETOOLONG: { code: "source/io", reason: "the name is too long" },
  ELOOP: { code: "source/io", reason: "too many symbolic links" },
  EIO: DISK_ERROR,
  EREMOTEIO: DISK_ERROR,
  EUCLEAN: { ...DISK_ERROR, reason: "the file system is damaged" },
  EBUSY: BUSY,
  ETXTBSY: { ...BUSY, reason: "it is a program that runs" },
  EXDEV: { code: "source/io", reason: "it lies on another file system" },
  EMLINK: { code: "source/io", reason: "it has too many links" },
  ENODEV: NO_DEVICE,
  ENXIO: NO_DEVICE,
  ENOMEDIUM: { code: "source/io", reason: "there is no medium in the drive" },
  ESTALE: LOST_MOUNT,
  ENOTCONN: { ...LOST_MOUNT, reason: "the file system does not answer" },
  EHOSTDOWN: { ...LOST_MOUNT, reason: "the file server does not answer" },
  ETIMEDOUT: { ...LOST_MOUNT, reason: "the file server does not answer" },
  ENOSYS: NOT_OFFERED,
  ENOTSUP: NOT_OFFERED,
  EOPNOTSUPP: NOT_OFFERED,
  EINVAL: NOT_OFFERED,
  ENOMEM: NO_MEMORY,
  ENOBUFS: NO_MEMORY,
  EAGAIN: { code: "source/io", reason: "the system has no room for it right now", hint: "Run the command again" },
  EOVERFLOW: { code: "source/io", reason: "it is too large for this system" },
  EPIPE: { code: "source/io", reason: "nothing reads it any more" },
  EADDRINUSE: {
    code: "source/io",
    reason: "the address is in use",
    hint: "Something else listens there: choose another port, or 0 for a free one",
  },
  EADDRNOTAVAIL: { code: "source/io", reason: "this machine does not have that address" },
};

/**
 * Numbers that Node gives without a name ("Unknown system error -122"): those of Linux, and two of macOS and the BSDs.
 * None of them means another file error on the other system.
 */
const UNNAMED: Readonly<Record<number, string>> = {
  69: "EDQUOT",
  70: "ESTALE",
  116: "ESTALE",
  117: "EUCLEAN",
  122: "EDQUOT",
  123: "ENOMEDIUM",
};

/** The POSIX name of a system error ("ENOENT"), or undefined. Node's own codes ("ERR_…") are not system errors. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return undefined;
  if (/^E[A-Z0-9]+$/.test(error.code)) return error.code;
  const number = /^Unknown system error -(\d+)$/.exec(error.code)?.[1];
  if (number !== undefined) return UNNAMED[Number(number)] ?? `error ${number}`;
  return error.code === "UNKNOWN" ? "unknown error" : undefined; // libuv's name for Windows errors that it cannot map
}

/** The error for a name in the table. `action` is the start of the sentence: "Cannot open \"x\"". */
export function systemError(errno: string, action: string, at: Location, extra: ErrorExtra = {}): TareError {
  const known = Object.hasOwn(SYSTEM_ERRORS, errno) ? SYSTEM_ERRORS[errno] : undefined;
  const { code, reason, hint }: SystemError = known ?? { code: "source/io", reason: `the system says ${errno}` };
  const message = `${action}: ${reason}`;
  if (isUsage(code)) return new UsageError(code, message, at, { hint, ...extra });
  return new SourceError(code, message, at, { hint, ...extra });
}

function isUsage(code: SystemError["code"]): code is `usage/${string}` {
  return code.startsWith("usage/");
}

/** What was tried, by the name of the system call in Node's error. */
const ACTIONS: Readonly<Record<string, string>> = {
  open: "open",
  read: "read",
  readlink: "read",
  write: "write",
  writev: "write",
  fsync: "write",
  fdatasync: "write",
  ftruncate: "write",
  truncate: "write",
  copyfile: "copy",
  rename: "rename",
  link: "rename",
  symlink: "make",
  mkdir: "make",
  mkdtemp: "make",
  unlink: "remove",
  rmdir: "remove",
  rm: "remove",
  scandir: "list",
  opendir: "list",
  chmod: "change",
  fchmod: "change",
  utime: "change",
  futime: "change",
  listen: "listen at",
  spawn: "run",
};

/**
 * A system error as one of ours; undefined for anything else. For errors that reach a boundary (the command line, a
 * worker's messages) because the code that made the call did not wrap them.
 */
export function namedSystemError(error: unknown): TareError | undefined {
  const errno = errnoOf(error);
  if (errno === undefined) return undefined;
  const { syscall, path } = error as { readonly syscall?: unknown; readonly path?: unknown };
  const call = typeof syscall === "string" ? (syscall.split(" ", 1)[0] ?? "") : "";
  const verb = Object.hasOwn(ACTIONS, call) ? ACTIONS[call] : "use";
  const source = typeof path === "string" ? path : undefined;
  if (call === "uv_cwd" && errno === "ENOENT") {
    const message = "Cannot use the working directory: it was removed";
    const hint = "Change to a folder that exists";
    return new SourceError("source/not-found", message, { source: "system" }, { hint, cause: error });
  }
  const action = `Cannot ${verb} ${source === undefined ? "a file" : `"${source}"`}`;
  return systemError(errno, action, { source: source ?? "system" }, { cause: error });
}
