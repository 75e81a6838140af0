import type { Bytes } from "../../base/bytes.ts";
import { IntegrityError, LimitError, SourceError, UsageError } from "../../base/errors.ts";
import { encodeHex, printable } from "../../base/text.ts";

/** A run of a file that does not match the file's own digests. */
export interface BadPiece {
  readonly label: string;
  readonly offset: number;
  readonly byteLength: number;
  readonly wanted: Bytes;
  readonly found: Bytes;
}

/** The error for a page that arrived damaged. The page is fetched again before a user sees this. */
export function pageError({ label, offset, byteLength, wanted, found }: BadPiece): IntegrityError {
  const message = `Bytes ${offset} to ${offset + byteLength} of "${label}" arrive damaged: BLAKE3 must be ${encodeHex(wanted)}, found ${encodeHex(found)}`;
  return new IntegrityError("integrity/pull.page", message, { source: label, offset }, { hint: HINT });
}

/** The error for a whole file whose digest differs from what its index states. */
export function digestError(label: string, wanted: string, found: string): IntegrityError {
  const message = `"${label}" arrived damaged: its SHA-256 must be ${wanted}, found ${found}`;
  return new IntegrityError("integrity/pull.sha256", message, { source: label, offset: 0 }, { hint: HINT });
}

/** The error for a whole file whose checksum differs from what its index states; numbers as eight hex digits. */
export function checksumError(label: string, wanted: string, found: string): IntegrityError {
  const message = `"${label}" is not the file that its index lists: its CRC-32 must be ${wanted}, found ${found}`;
  return new IntegrityError("integrity/pull.crc32", message, { source: label, offset: 0 }, { hint: HINT });
}

/** The error for a file whose length differs from what its index states. */
export function sizeError(label: string, wanted: number, found: number): IntegrityError {
  const message = `"${label}" is not the file that its index lists: it must have ${wanted} bytes, found ${found}`;
  return new IntegrityError("integrity/pull.size", message, { source: label, offset: 0 }, { hint: HINT });
}

/** The error for a file whose own check failed after it had arrived. */
export function contentError(label: string, problem: string, offset: number | undefined): IntegrityError {
  const at = { source: label, ...(offset === undefined ? {} : { offset }) };
  return new IntegrityError("integrity/pull.content", `"${label}" arrived damaged: ${problem}`, at, { hint: HINT });
}

/** The error for a URL that does not end with a file name. */
export function nameError(label: string): UsageError {
  const message = `Cannot pull "${label}": the address must end with the name of a file`;
  return new UsageError("usage/pull.name", message, { source: label }, { hint: "Name the file or the set's index" });
}

/** The error for an existing file that no pull has put there. */
export function existsError(label: string): UsageError {
  const message = `Cannot write "${label}": it exists already, and no pull has put it there as it is now`;
  return new UsageError(
    "usage/exists",
    message,
    { source: label },
    { hint: "Choose another folder, or pass the option force" },
  );
}

/** The error for two files of a set that would get the same name; `other` is the other spelling in the set. */
export function collisionError(name: string, label: string, other = name): UsageError {
  const [shown, first] = [printable(name), printable(other)];
  const what =
    first === shown ? `two of its files would be named "${shown}"` : `"${first}" and "${shown}" may be one name`;
  return new UsageError("usage/pull.collision", `Cannot pull "${label}": ${what}`, { source: label });
}

/** The error for a name in an index that no file of a model has. */
export function refusedNameError(name: string, label: string, reason: string): SourceError {
  const message = `Cannot pull "${label}": it names a file "${printable(name)}", and ${reason}`;
  return new SourceError(
    "source/pull.name",
    message,
    { source: label },
    { hint: "Nothing was written; a file that is wanted all the same can be pulled by its own address" },
  );
}

/** The error for a name that is too long for file systems. */
export function longNameError(
  name: string,
  label: string,
  { found, allowed }: { readonly found: number; readonly allowed: number },
): LimitError {
  const message = `Cannot pull "${label}": the name "${printable(name.slice(0, 40))}…" has ${found} bytes, must have at most ${allowed}`;
  return new LimitError("limit/pull.name-bytes", message, { source: label });
}

/** The error for a file that does not fit on the disk, found before any of it is fetched. */
export function spaceError(label: string, wanted: number, free: number): SourceError {
  const message = `Cannot pull "${label}": its server says that it has ${wanted} more bytes, and the disk has room for ${free}`;
  return new SourceError(
    "source/pull.space",
    message,
    { source: label },
    { hint: "Make room, or choose another folder" },
  );
}

/** True if the server reports that the file is no longer the one that was opened. */
export function isChange(error: SourceError): boolean {
  return error.code === "source/http.changed";
}

const HINT = "Try another mirror with the option mirror URL; nothing damaged was put in place";
