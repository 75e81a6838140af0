import type { ErrorCatalog } from "../../base/errors.ts";

const AGAIN = "Get another copy of the sidecar, or make it again with `tare correct gen` while the file is whole.";

/** All reasons to refuse a sidecar. */
export const AEROCORRECT_ERRORS = {
  "format/aerocorrect.front": {
    what: "The file is no .aerocorrect sidecar, or its first bytes are damaged.",
    why: "A sidecar begins with AEROCORR and a version; this one is empty, cut short or something else.",
    fix: AGAIN,
  },
  "format/aerocorrect.directory": {
    what: "The directory of the sidecar cannot be read.",
    why: "It is there three times, and all three are damaged in the same places.",
    fix: AGAIN,
  },
  "format/aerocorrect.segment": {
    what: "The sidecar says that its parity is longer or shorter than it is.",
    why: "It was cut short, something was appended to it, or its directory is damaged.",
    fix: AGAIN,
  },
  "format/aerocorrect.window": {
    what: "The sidecar does not protect all of a file, one window after the other.",
    why: "It is neither that of a file nor that of a vault, or its directory is damaged.",
    fix: AGAIN,
  },
  "integrity/aerocorrect.directory": {
    severity: "warning",
    what: "Copies of the sidecar's directory are damaged; another copy, or all together, still tell what was in them.",
    why: "Bytes were damaged on disk or on the way.",
    fix: "Make the sidecar again with `tare correct gen --force` while the file is whole.",
  },
  "integrity/aerocorrect.checksum": {
    what: "The sidecar is of version 1 and damaged.",
    why: "That version has one checksum over everything and no copies: nothing of it can be trusted.",
    fix: AGAIN,
  },
  "unsupported/aerocorrect.version": {
    what: "The sidecar is of another version than 1 or 2.",
    why: "Its layout is not known here.",
    fix: "Look for a newer version of tare.",
  },
} as const satisfies ErrorCatalog;
