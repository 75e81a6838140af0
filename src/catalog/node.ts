import type { ErrorCatalog } from "../base/errors.ts";

export const CACHE_ERRORS = {
  "integrity/cache.entry": {
    what: "A file of the disk cache is not as it was written.",
    why: "Disks and interrupted systems damage files; every entry carries checksums, so a damaged one is never served.",
    fix: "Nothing needs to be done: it is fetched again. `tare cache verify --fix` removes all that are damaged.",
  },
} as const satisfies ErrorCatalog;

export const TARGET_ERRORS = {
  "source/no-texts": {
    what: "The directory that `embed --search` was to read holds no text file.",
    why: "Files are read whose names end in .txt, .text, .md or .markdown, also those in directories below; hidden ones and links are not.",
    fix: "Name the file itself, or rename the files.",
  },
  "source/no-model": {
    what: "The directory holds no file that looks like a model.",
    why: "Directories are searched, without their subdirectories, for the extensions that tare knows.",
    fix: "Name the file itself.",
  },
  "usage/ambiguous-target": {
    what: "The directory holds more than one model.",
    why: "Choosing one silently would be a guess.",
    fix: "Name the file; the error lists them.",
  },
  "unsupported/scheme": {
    what: "The scheme of a target or of an output is not one that tare reads from or writes to.",
    why: "This version reads paths, standard input, http://, https:// and s3://. It writes to paths, and some commands to s3://; taken for a path, an address would become folders on disk.",
    fix: "Download the file, or use an http(s) address of it; write to disk, and upload with `tare push`.",
  },
} as const satisfies ErrorCatalog;

export const OUTPUT_PLACE_ERRORS = {
  "usage/vault.output": {
    what: "An output was named as a path inside a vault, and cannot be stored there.",
    why: "Commands that write one file store it in the vault; folders, sets of files, keys and vaults they cannot. Writing it beside the vault would leave in clear what was meant to be encrypted.",
    fix: "Write to disk, and store it with `tare vault add`.",
  },
} as const satisfies ErrorCatalog;

/** Errors of editing files in place. */
export const PATCH_ERRORS = {
  "source/stamp.changed": {
    what: "The file was changed by something else while it was to be edited in place.",
    why: "Writing over bytes that are not the ones that were read would destroy them.",
    fix: "Run the command again when nothing else writes to the file.",
  },
  "source/stamp.locked": {
    what: "Another process is editing the file in place.",
    why: "Its journal is beside the file; two edits at once would mix their bytes.",
    fix: "Wait until it has ended, then run the command again.",
  },
  "source/stamp.journal": {
    what: "An edit in place was interrupted, and its journal does not fit the file, or is not one of this user.",
    why: "Something else has written to the file since, the journal is damaged, or it was written by another user, on another machine, or without a place for the user's secret. Commands that only read ignore such a journal.",
    fix: "Check the file with `tare verify`; if it is sound, remove the journal that the hint names.",
  },
  "source/journal.foreign": {
    severity: "warning",
    what: "Beside the file is a journal of an interrupted write that is not believed; the file is used as it is.",
    why: "In a folder that several users share, anyone can put a file there. A journal counts if it is a plain file with one name that belongs to you or to the owner of the file, and if the header that it completes is whole.",
    fix: "Look who owns it, and have them open the file, which finishes what was interrupted. Remove it only if the file opens and is right without it. As long as it is there, each change of a vault above 16 MiB copies it, and no edit in place begins.",
  },
} as const satisfies ErrorCatalog;

/** Errors of the worker pool. */
export const WORKER_ERRORS = {
  "source/worker.failed": {
    what: "A worker thread ended, or failed in a way that is not an error of the file, while it was at work.",
    why: "The system may have ended it for lack of memory; otherwise it is a defect of tare.",
    fix: "Run the command again, with --concurrency 1 if it happens again, and report it.",
  },
  "source/worker.unavailable": {
    what: "Worker threads cannot be started here.",
    why: "The worker script is missing, or the host forbids workers. Work is then done on the calling thread.",
    fix: "Nothing to do: this is seen only by code that uses a worker pool directly.",
  },
  "usage/worker.request": {
    what: "Work for a worker holds something that cannot be sent to it, such as a function or a detached buffer.",
    why: "What crosses to a worker is copied by the structured clone algorithm.",
    fix: "Send plain data, and buffers that were not transferred before.",
  },
  "usage/worker.closed": {
    what: "The worker pool or the engine was closed while work was waiting or running.",
    why: "Closing ends every worker.",
    fix: "Close the engine after everything that uses it has finished.",
  },
} as const satisfies ErrorCatalog;
