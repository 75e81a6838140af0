import type { ErrorCatalog } from "../../base/errors.ts";

const ANOTHER_COPY = "Get another copy of the vault.";
const NEWER = "Look for a newer version of tare.";
const CRAFTED = "No known program writes that: the vault is damaged, or was crafted to break readers.";
const DISTRUST = "Do not trust the vault.";

/** Reasons to refuse vaults of version 2, in addition to those of version 3, and findings of verifying. */
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
    why: "Such a path could make extraction write anywhere. So tare gives out nothing of the vault.",
    fix: "Do not trust the vault.",
  },
  "format/aerovault2.odd-name": {
    severity: "warning",
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
    severity: "note",
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
    why: "Its meaning would be ignored, so the vault is refused before the password is used.",
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

/** Reasons to refuse vaults of version 1, and findings of verifying. */
export const AEROVAULT1_ERRORS = {
  "format/aerovault1.end": {
    what: "The end of the ZIP is missing, contradicts itself, or places the directory where it cannot be.",
    why: "The file was cut off, something was put in front of it or after it, or it has a comment, in which another end could hide.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault1.directory": {
    what: "The directory of the ZIP is malformed.",
    why: CRAFTED,
    fix: ANOTHER_COPY,
  },
  "format/aerovault1.extra": {
    what: "An extra field of a ZIP entry is cut short, there twice, or not what it says it is.",
    why: CRAFTED,
    fix: ANOTHER_COPY,
  },
  "format/aerovault1.path": {
    what: "An entry has a name that leads out of the vault, that another one has too, that lies below a file, or that is not UTF-8.",
    why: "Such a name could make extraction write anywhere. So tare gives out nothing of the vault.",
    fix: DISTRUST,
  },
  "format/aerovault1.kind": {
    what: "An entry is a link or a device.",
    why: "Vaults hold files and directories; a careless program would follow a link when it extracts the vault.",
    fix: DISTRUST,
  },
  "format/aerovault1.unencrypted": {
    what: "A file of the vault is not encrypted.",
    why: "Every file of a vault is: someone without the password put this one in.",
    fix: DISTRUST,
  },
  "format/aerovault1.size": {
    what: "A file is longer than its stored bytes can be, or not as long as the directory says.",
    why: "A few bytes that claim to be many are made to exhaust memory or disk.",
    fix: DISTRUST,
  },
  "format/aerovault1.overlap": {
    what: "Two entries share bytes, or one reaches into the directory.",
    why: "Overlapping entries are how a small ZIP claims to hold much.",
    fix: DISTRUST,
  },
  "format/aerovault1.local": {
    what: "The header in front of an entry does not say what the directory says.",
    why: "Readers that go by one of them would see other files than those that go by the other.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault1.meta": {
    what: "The entry that makes a ZIP a vault is missing or malformed.",
    why: "It holds the version and the time of creation.",
    fix: ANOTHER_COPY,
  },
  "integrity/aerovault1.hmac": {
    what: "A file is not the one that was written.",
    why: "Its HMAC does not match, or its salt is damaged. The password is not the problem.",
    fix: ANOTHER_COPY,
  },
  "integrity/aerovault1.crc": {
    what: "The CRC-32 of a file is not that of its bytes.",
    why: "The HMAC matches, so the program that wrote it was wrong.",
    fix: ANOTHER_COPY,
  },
  "integrity/aerovault1.count": {
    severity: "warning",
    what: "The vault holds another number of files than it was written with.",
    why: "A person without the password added or removed some, or the program that wrote it counted differently.",
    fix: "Compare with another copy where it matters.",
  },
  "integrity/aerovault1.unproven": {
    severity: "note",
    what: "Names, times and the number of files of the vault are protected by nothing.",
    why: "Version 1 encrypts contents only: files can be renamed, exchanged and removed without the password.",
    fix: "Upgrade the vault with `tare upgrade OLD NEW`.",
  },
  "unsupported/aerovault1.encryption": {
    what: "A file is encrypted or compressed in a way that vaults do not use.",
    why: "Vaults of version 1 use AES-256 and deflate.",
    fix: "Extract it with the program that made it.",
  },
  "unsupported/aerovault1.entry": {
    what: "An entry of the ZIP has a flag that is not known, or lies on another disk.",
    why: "Its meaning would be ignored.",
    fix: "Extract it with the program that made it.",
  },
  "limit/aerovault1.directory-bytes": {
    what: "The directory of the ZIP is longer than this reader holds in memory.",
    why: "A million files fit.",
    fix: "Raise the limit aerovault1.directoryBytes if you trust the vault.",
  },
} as const satisfies ErrorCatalog;
