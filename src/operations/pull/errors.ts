import type { Bytes } from "../../base/bytes.ts";
import { type ErrorCatalog, IntegrityError, LimitError, SourceError, UsageError } from "../../base/errors.ts";
import { encodeHex } from "../../base/hex.ts";
import { printable } from "../../base/text.ts";

/** A run of a file that did not arrive as the file's own digests say. */
export interface BadPiece {
  readonly label: string;
  readonly offset: number;
  readonly byteLength: number;
  readonly wanted: Bytes;
  readonly found: Bytes;
}

/** The error for a page that arrived damaged; it is fetched again before anybody sees this. */
export function pageError({ label, offset, byteLength, wanted, found }: BadPiece): IntegrityError {
  const message = `Bytes ${offset} to ${offset + byteLength} of "${label}" arrive damaged: BLAKE3 must be ${encodeHex(wanted)}, found ${encodeHex(found)}`;
  return new IntegrityError("integrity/pull.page", message, { source: label, offset }, { hint: HINT });
}

/** The error for a whole file whose digest differs from what its index states. */
export function digestError(label: string, wanted: string, found: string): IntegrityError {
  const message = `"${label}" arrived damaged: its SHA-256 must be ${wanted}, found ${found}`;
  return new IntegrityError("integrity/pull.sha256", message, { source: label, offset: 0 }, { hint: HINT });
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

/** The error for a URL from which no file name follows. */
export function nameError(label: string): UsageError {
  const message = `Cannot pull "${label}": the address must end with the name of a file`;
  return new UsageError("usage/pull.name", message, { source: label }, { hint: "Name the file or the set's index" });
}

/** The error for a file in the way that no pull has put there. */
export function existsError(label: string): UsageError {
  const message = `Cannot write "${label}": it exists already, and no pull has put it there as it is now`;
  return new UsageError("usage/exists", message, { source: label }, { hint: "Choose another folder, or pass --force" });
}

/** The error for two files of a set that would get the same name; `other` is how the set spells it elsewhere. */
export function collisionError(name: string, label: string, other = name): UsageError {
  const [shown, first] = [printable(name), printable(other)];
  const what =
    first === shown ? `two of its files would be named "${shown}"` : `"${first}" and "${shown}" may be one name`;
  return new UsageError("usage/pull.collision", `Cannot pull "${label}": ${what}`, { source: label });
}

/** The error for a name that an index gives to a file and that no file of a model has. */
export function refusedNameError(name: string, label: string, reason: string): SourceError {
  const message = `Cannot pull "${label}": it names a file "${printable(name)}", and ${reason}`;
  return new SourceError(
    "source/pull.name",
    message,
    { source: label },
    { hint: "Nothing was written; a file that is wanted all the same can be pulled by its own address" },
  );
}

/** The error for a name that file systems do not hold. */
export function longNameError(
  name: string,
  label: string,
  { found, allowed }: { readonly found: number; readonly allowed: number },
): LimitError {
  const message = `Cannot pull "${label}": the name "${printable(name.slice(0, 40))}…" has ${found} bytes, must have at most ${allowed}`;
  return new LimitError("limit/pull.name-bytes", message, { source: label });
}

/** The error for a file that the disk has no room for, found before any of it is fetched. */
export function spaceError(label: string, wanted: number, free: number): SourceError {
  const message = `Cannot pull "${label}": its server says that it has ${wanted} more bytes, and the disk has room for ${free}`;
  return new SourceError(
    "source/pull.space",
    message,
    { source: label },
    { hint: "Make room, or choose another folder" },
  );
}

/** True for what the server says when the file is no longer the one that was opened. */
export function isChange(error: SourceError): boolean {
  return error.code === "source/http.changed";
}

const HINT = "Try another mirror with --mirror URL; nothing damaged was put in place";

/** Errors of pull. */
export const PULL_ERRORS = {
  "integrity/pull.page": {
    what: "A page of the file arrives with other bytes than the file's own digest says, from every mirror.",
    why: "Every page is compared as it arrives and fetched again from another mirror before pull gives up.",
    fix: "Name another mirror with --mirror, or tell whoever runs the server that its copy is damaged.",
  },
  "integrity/pull.sha256": {
    what: "A file that arrived whole does not have the SHA-256 that the set's index states for it.",
    why: "The server's copy is damaged or belongs to another version of the set.",
    fix: "Name another mirror with --mirror, or get the index again.",
  },
  "integrity/pull.size": {
    what: "The server's file has another length than the set's index states.",
    why: "The copy is cut off or belongs to another version of the set.",
    fix: "Name another mirror with --mirror, or get the index again.",
  },
  "integrity/pull.content": {
    what: "An AERO file arrived whole, but its own digests do not hold.",
    why: "The server's copy is damaged outside of the pages that are compared on arrival.",
    fix: "Name another mirror with --mirror.",
  },
  "usage/pull.name": {
    what: "The address to pull from does not end with a file name.",
    why: "A web server has no listing that could be trusted to tell what belongs to a model.",
    fix: "Name the file, or the index of the set: model.aeroset.json, model.safetensors.index.json.",
  },
  "usage/pull.collision": {
    what: "Two files of the set have the same name, or names that differ in case or Unicode form only, or one is a folder of the other.",
    why: "Both would be written to one file, here or on another system.",
    fix: "Pull the files one by one into folders of their own.",
  },
  "source/pull.name": {
    what: "The index of a set names itself, or a file that is no part of a model, is hidden, or is called like a work file of pull.",
    why: "An index comes from a server. It must not decide what a shell, an interpreter or another program reads later.",
    fix: "Do not trust the set. If it is yours, name its parts as models do, or pull a single file by its own address.",
  },
  "limit/pull.name-bytes": {
    what: "A file of the set has a name that is too long for file systems.",
    why: "They hold 255 bytes between two slashes; work files of pull need 20 of them.",
    fix: "Rename the file where it is published.",
  },
  "usage/pull.mirror": {
    what: "A mirror is not the http(s) address of a folder.",
    why: "The names of the files are put behind it.",
    fix: "Name the folder that holds the same files: --mirror https://host/folder/.",
  },
  "source/pull.locked": {
    what: "Another pull is writing to the same folder.",
    why: "Two writers would overwrite each other's unfinished files.",
    fix: "Wait until the other one has ended, or choose another folder.",
  },
  "source/pull.space": {
    what: "The file is longer than what the disk has room for.",
    why: "It is compared before anything is fetched. A server may also claim a length that no file has.",
    fix: "Make room or choose another folder; if the length makes no sense, do not trust the server.",
  },
  "source/pull.entry": {
    what: "A link, a hard link too, or a folder is in the way of an unfinished file.",
    why: "Unfinished files are only ever plain files in the folder itself, with no other name elsewhere.",
    fix: "Remove what the error names.",
  },
} as const satisfies ErrorCatalog;
