import { hideSecrets } from "./text.ts";

/** Where a fault sits, for a person holding a hex editor. */
export interface Location {
  /** Source label: a path, a URL, "memory"; credentials are already stripped. */
  readonly source: string;
  /** Absolute byte offset in that source. */
  readonly offset?: number;
  /** How many bytes from there on are concerned, where that is known: a page, a chunk, a tensor. */
  readonly byteLength?: number;
  /** The field as the format's specification spells it: "toc[3].chunk_offset". */
  readonly path?: string;
}

export interface ErrorExtra {
  readonly hint?: string | undefined;
  /** How long the file would have to be, where it is cut short: what comes before its end may be whole. */
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

export function isTareError(error: unknown): error is TareError {
  return error instanceof TareError;
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
  /** The gravest that it ever is, where that is no error: no command ends because of it, so that it has no exit code. */
  readonly severity?: "warning" | "note";
}
