import type { ErrorCatalog } from "../../base/errors.ts";

const ANOTHER_COPY = "Get another copy of the vault.";
const NEWER = "Look for a newer version of tare.";
const REPAIR =
  "Run `tare vault repair`, which heals it where the vault has parity or a sidecar; else get another copy of the vault.";
const CRAFTED = "No known program writes that: the vault is damaged, or was crafted to break readers.";

/** All reasons to refuse vaults, and findings of scrubbing. */
export const AEROVAULT_ERRORS = {
  "format/aerovault.header": {
    what: "The header of the vault is cut short, or a field of it has a value that no vault has.",
    why: "The file was cut off, or its first kilobyte is damaged.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault.section": {
    what: "The header places data, manifest or extensions where they cannot be.",
    why: "The file was cut off, its header is damaged, or two sections overlap.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault.extension": {
    what: "The list of extensions is malformed, names one twice, or places one outside of the vault.",
    why: CRAFTED,
    fix: ANOTHER_COPY,
  },
  "format/aerovault.manifest": {
    what: "The manifest lacks a key it needs, or a value in it has the wrong type.",
    why: "Nothing is guessed: sizes are whole numbers, keys are there once.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault.lane": {
    what: "The header says that the vault is encrypted and the manifest that it is not, or the other way round.",
    why: CRAFTED,
    fix: ANOTHER_COPY,
  },
  "format/aerovault.path": {
    what: "An entry has a path that leads out of the vault or that no vault stores.",
    why: "Such a path could make extraction write anywhere. So tare gives out nothing of the vault.",
    fix: "Do not trust the vault.",
  },
  "format/aerovault.duplicate-path": {
    what: "Two entries have the same path.",
    why: "Readers would disagree on which of the two counts.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault.path-conflict": {
    what: "A path is a file and also the folder of another entry.",
    why: "No file system can hold both.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault.chunk": {
    what: "An entry needs a chunk that the vault does not have, or more bytes than its chunks hold.",
    why: "The manifest is damaged or was written badly. Other entries are readable.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault.size": {
    what: "An entry's size is not that of the chunks it consists of.",
    why: "In a vault without encryption nothing protects the manifest, and a wrong size would cut the file short.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault.record": {
    what: "The record of a chunk contradicts itself or another one.",
    why: CRAFTED,
    fix: ANOTHER_COPY,
  },
  "format/aerovault.overlap": {
    what: "Two chunks claim the same stored bytes.",
    why: CRAFTED,
    fix: ANOTHER_COPY,
  },
  "format/aerovault.block": {
    what: "A chunk is placed outside of the vault's data, or its block is longer than blocks are.",
    why: "The manifest is damaged or was crafted. Entries without this chunk are readable.",
    fix: ANOTHER_COPY,
  },
  "format/aerovault.trailing": {
    severity: "warning",
    what: "Bytes follow the last section of the vault.",
    why: "Nothing refers to them, and the next change of the vault drops them.",
    fix: "Nothing needs to be done.",
  },
  "integrity/aerovault.header": {
    what: "The header is not the one that was written.",
    why: "Its HMAC does not match, or the key slots are damaged. The password is not the problem.",
    fix: "Run `tare vault repair` where the vault has a sidecar. A power failure during a change leaves `.NAME.tare-header` beside the name that was changed: open the vault by that name, not by another hard link or a mount of the file alone. Else get another copy of it.",
  },
  "integrity/aerovault.manifest": {
    what: "The manifest is not the one that was written.",
    why: "The key is right, as the header shows, but the manifest's tag does not match: it is damaged or was changed, and parity could not heal it.",
    fix: "Run `tare vault repair` where the vault has a sidecar; else get another copy of it.",
  },
  "integrity/aerovault.healed": {
    what: "A part of the vault is damaged on disk, and was read as its parity has it.",
    why: "What was read is proven; the file is as damaged as before, and the next damage may be too much.",
    fix: "Run `tare vault repair`, which writes the healed bytes. Until then nothing else is written to the vault.",
  },
  "integrity/aerovault.directory": {
    what: "The list of extensions is damaged.",
    why: "Nothing protects it, but it can only say one thing about the parity that is in the vault, and says something else.",
    fix: "Run `tare vault repair`, which writes it again.",
  },
  "integrity/aerovault.parity": {
    severity: "warning",
    what: "The parity that the vault carries is damaged, or is not that of its blocks and its manifest.",
    why: "Bytes of it were damaged on disk or on the way. Every file is there; less of later damage could be healed.",
    fix: "Run `tare vault repair`, which computes it again.",
  },
  "integrity/aerovault.shard": {
    what: "A run of stored blocks does not have the checksum that the vault's parity keeps of it.",
    why: "Bytes were damaged on disk or on the way. With the password, tare names the files that lose by it.",
    fix: REPAIR,
  },
  "integrity/aerovault.sealed": {
    severity: "note",
    what: "The vault was looked at without its password.",
    why: "Names, places and hashes of blocks are in the manifest, which is encrypted.",
    fix: "Run the command again with the password to have everything checked.",
  },
  "integrity/aerovault.prefix": {
    what: "The length in front of a stored block is not the one that the manifest has.",
    why: "Bytes were damaged on disk or on the way.",
    fix: REPAIR,
  },
  "integrity/aerovault.cipher-hash": {
    what: "A stored block does not have the hash that the manifest has.",
    why: "Bytes were damaged on disk or on the way.",
    fix: REPAIR,
  },
  "integrity/aerovault.tag": {
    what: "A stored block cannot be decrypted: its tag does not match.",
    why: "It was changed, moved or exchanged for another one by someone who could not encrypt.",
    fix: REPAIR,
  },
  "integrity/aerovault.frame": {
    what: "A stored block cannot be decompressed, or does not give as many bytes as the manifest says.",
    why: "The program that wrote it was wrong, or the block was made to exhaust memory. Nothing of it is handed out.",
    fix: REPAIR,
  },
  "integrity/aerovault.chunk-id": {
    what: "The bytes of a chunk do not match its id.",
    why: "The id is a hash of the content, so the content was exchanged or damaged before it was stored.",
    fix: REPAIR,
  },
  "integrity/aerovault.unproven": {
    severity: "note",
    what: "The vault is not encrypted, and nothing proves which bytes of its packs belong to which file.",
    why: "Chunk ids prove contents, but the names, times and places in the manifest are protected by no key.",
    fix: "Compare with another copy where it matters, or keep the files in an encrypted vault.",
  },
  "integrity/aerovault.unreferenced": {
    severity: "note",
    what: "The vault stores chunks that no entry uses.",
    why: "They belonged to files that were replaced or removed, and stay until the vault is compacted.",
    fix: "Run `tare vault compact` to give the space back.",
  },
  "unsupported/aerovault.older": {
    what: "A vault of version 1 or 2 was to be changed.",
    why: "Older versions protect less than version 3: they are read so that nothing is lost, and never written.",
    fix: "Make a vault of version 3 from it with `tare upgrade OLD NEW`, and change that.",
  },
  "unsupported/aerovault.version": {
    what: "The vault is of another version than 3.",
    why: "Its layout is not known here.",
    fix: NEWER,
  },
  "unsupported/aerovault.flags": {
    what: "The header has a flag that version 3 does not define.",
    why: "Its meaning would be ignored, so the vault is refused before the password is used.",
    fix: NEWER,
  },
  "unsupported/aerovault.reserved": {
    what: "The header has a value in bytes that are reserved.",
    why: "A newer version may have given them a meaning, or the header is damaged.",
    fix: NEWER,
  },
  "unsupported/aerovault.extension": {
    what: "The vault needs an extension that this version does not know.",
    why: "It is marked critical: reading on without it would break a promise of the vault.",
    fix: NEWER,
  },
  "unsupported/aerovault.manifest": {
    what: "The manifest is of another version than 3.",
    why: "Its keys may mean something else.",
    fix: NEWER,
  },
  "unsupported/aerovault.wrapper": {
    what: "The vault uses an algorithm, or a version of one, that is not known here.",
    why: "Decoding with another one would give wrong bytes.",
    fix: NEWER,
  },
  "limit/aerovault.manifest-bytes": {
    what: "The manifest is longer than this reader holds in memory.",
    why: "The reference refuses it too.",
    fix: "Raise the limit aerovault.manifestBytes if you trust the vault.",
  },
  "limit/aerovault.directory-bytes": {
    what: "The list of extensions is longer than this reader holds in memory.",
    why: "The reference refuses it too.",
    fix: "Raise the limit aerovault.directoryBytes if you trust the vault.",
  },
  "limit/aerovault.extensions": {
    what: "The vault has more extensions than this reader is willing to handle.",
    why: "A crafted list could exhaust memory; real vaults have two.",
    fix: "Raise the limit aerovault.extensions if you trust the vault.",
  },
  "limit/aerovault.path-length": {
    what: "An entry of the vault has a longer path than this reader is willing to handle.",
    why: "No file system could hold it, and a crafted one could keep a processor busy.",
    fix: "Raise the limit aerovault.pathLength if you trust the vault.",
  },
  "limit/aerovault.path-depth": {
    what: "An entry of the vault lies in more folders than this reader is willing to handle.",
    why: "A crafted path could keep a processor busy, and fill a disk with folders.",
    fix: "Raise the limit aerovault.pathDepth if you trust the vault.",
  },
  "limit/aerovault.block-bytes": {
    what: "A stored block is longer than this reader holds in memory.",
    why: "The reference refuses it too.",
    fix: "Raise the limit aerovault.blockBytes if you trust the vault.",
  },
  "limit/aerovault.chunk-bytes": {
    what: "A chunk is longer than the vault's own bounds allow.",
    why: "A crafted length could exhaust memory: nothing is decompressed beyond the bound.",
    fix: "Do not trust the vault.",
  },
  "usage/vault.unencrypted": {
    what: "A password was given, and the vault has no encryption.",
    why: "A user who gives a password expects an encrypted vault. Anybody can make one without encryption and put it in that place; what is added to it would be stored in clear.",
    fix: "Look where the vault came from. Where it is meant to have no encryption, pass no password, or --no-encryption whenever one is given.",
  },
  "usage/aerovault.container": {
    what: "Something was given to the vault's code that is not a vault.",
    why: "Containers belong to the format that opened them.",
    fix: "Pass what opening the vault gave.",
  },
} as const satisfies ErrorCatalog;
