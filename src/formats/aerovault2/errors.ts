import type { ErrorCatalog } from "../../base/errors.ts";

const ANOTHER_COPY = "Get another copy of the vault.";
const NEWER = "Look for a newer version of tare.";
const CRAFTED = "No known program writes that: the vault is damaged, or was crafted to break readers.";

/** What vaults of version 2 are refused for beyond what version 3 is, and what verifying finds. */
export const AEROVAULT2_ERRORS = {
  "format/aerovault2.header": {
    what: "The header of a vault of version 2 is cut short, or a field of it has a value that no vault has.",
    why: "The file was cut off, or its first half kilobyte is damaged.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault2.manifest": {
    what: "The manifest is longer than the file, lacks a key it needs, or a value in it has the wrong type.",
    why: "Nothing is guessed: sizes are whole numbers, keys are there once, a file id has sixteen bytes.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault2.path": {
    what: "An entry has a path that leads out of the vault, that another one has too, or that lies below a file.",
    why: "Such a path could make extraction write anywhere, so that nothing of the vault is handed out.",
    fix: "Do not trust the vault.",
  },
  "format/aerovault2.odd-name": {
    what: "A file of the vault has a name that vaults of version 3 do not store.",
    why: "Backslashes, drive letters and white space at the ends were accepted by older programs.",
    fix: "Extract it; rename it before adding it to another vault.",
  },
  "format/aerovault2.entry": {
    what: "An entry lies outside of the vault's data, or its chunks cannot hold its size.",
    why: "The vault was cut short, or its manifest was crafted. Other entries are readable.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault2.chunk": {
    what: "The length in front of a chunk is one that no chunk of this vault can have.",
    why: "Bytes were damaged on disk or on the way; nothing is read beyond the entry's own bytes.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault2.size": {
    what: "A file's chunks hold more or fewer bytes than the manifest says.",
    why: CRAFTED,
    fix: ANOTHER_COPY,
  },
  "integrity/aerovault2.manifest": {
    what: "The manifest is not the one that was written.",
    why: "The key is right, as the header shows, but the manifest's tag does not match: it is damaged or was changed.",
    fix: ANOTHER_COPY,
  },
  "integrity/aerovault2.name": {
    what: "The name of an entry is not one that was encrypted with the vault's key.",
    why: CRAFTED,
    fix: ANOTHER_COPY,
  },
  "integrity/aerovault2.tag": {
    what: "A chunk cannot be decrypted: its tag does not match.",
    why: "It was damaged, changed, moved or exchanged for another one.",
    fix: ANOTHER_COPY,
  },
  "integrity/aerovault2.unreferenced": {
    what: "The vault stores bytes that no entry uses.",
    why: "Version 2 leaves the chunks of removed files where they are.",
    fix: "Upgrade the vault with `tare upgrade OLD NEW`: only what entries use is taken over.",
  },
  "unsupported/aerovault2.version": {
    what: "The vault is of a revision of version 2 that no program is known to write.",
    why: "Its chunks may be bound to something else.",
    fix: NEWER,
  },
  "unsupported/aerovault2.flags": {
    what: "The header has a flag that version 2 never gave a meaning.",
    why: "Whatever it stands for would be ignored, so the vault is refused before the password is used.",
    fix: "Get another copy of the vault; the reference takes no notice of these bits.",
  },
  "unsupported/aerovault2.reserved": {
    what: "The header has a value in bytes that are reserved.",
    why: "A newer version may have given them a meaning, or the header is damaged.",
    fix: NEWER,
  },
  "limit/aerovault2.manifest-bytes": {
    what: "The manifest is longer than this reader holds in memory.",
    why: "The reference refuses it too.",
    fix: "Raise the limit aerovault2.manifestBytes if you trust the vault.",
  },
  "limit/aerovault2.uneven-chunks": {
    what: "A file consists of more chunks of different lengths than this reader is willing to list.",
    why: "Known programs write chunks of one length, which need no list.",
    fix: "Raise the limit aerovault2.unevenChunks if you trust the vault.",
  },
} as const satisfies ErrorCatalog;
