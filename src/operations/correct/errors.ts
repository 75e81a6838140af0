import type { ErrorCatalog } from "../../base/errors.ts";

/** Errors of protecting files by sidecars, and of healing them. */
export const CORRECT_ERRORS = {
  "unsupported/aerocorrect.kind": {
    what: "The sidecar is of the other kind: that of a vault for a file, or that of a file for a vault.",
    why: "Both have the same name. That of a vault protects its header, manifest and blocks; that of a file protects the whole, of whatever kind it is.",
    fix: "Use `tare vault repair` with the one of a vault and `tare correct repair` with the one of a file.",
  },
  "integrity/aerocorrect.anchor": {
    what: "The sidecar is for another file than the one that is expected.",
    why: "Its SHA-256 is not the one of --expect-sha256. A sidecar can only bring back what it was made of: one that somebody planted would bring back something else.",
    fix: "Look for the sidecar that was made of the right file. Nothing was written.",
  },
  "integrity/aerocorrect.damaged": {
    what: "The file is not the one that the sidecar was made of, and parity suffices to heal it.",
    why: "Bytes were damaged, lost or added.",
    fix: "Run `tare correct repair`.",
  },
  "integrity/aerocorrect.lost": {
    what: "The file is not the one that the sidecar was made of, and cannot be healed with it.",
    why: "More shards of a group are damaged than there are parity shards, or the sidecar belongs to another file or to another version of it.",
    fix: "Get another copy of the file. It is left as it is.",
  },
  "integrity/aerocorrect.other": {
    what: "The file has another length than the one that the sidecar was made of, and hardly a byte in common with it.",
    why: "It is another file, or it was written anew since. Parity of a short file suffices to make that file out of anything: repairing would replace what is there now.",
    fix: "Make the sidecar again: `tare correct gen --force`. Where the old file is what you want, pass its SHA-256 as --expect-sha256. Nothing was written.",
  },
  "integrity/aerocorrect.parity": {
    what: "The file is whole, but parity in its sidecar is damaged.",
    why: "Bytes of the sidecar were damaged on disk or on the way: it can heal less than it should.",
    fix: "Make it again: `tare correct gen --force`.",
  },
} as const satisfies ErrorCatalog;
