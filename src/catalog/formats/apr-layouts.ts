import type { ErrorCatalog } from "../../base/errors.ts";

const AGAIN = "Download the file again; if the copy is whole, its writer made a mistake.";

/** Errors that only files in other programs' layouts have; the others share the codes of the specification's layout. */
export const WILD_ERRORS = {
  "integrity/apr.header-crc": {
    what: "The CRC-32 in a 64-byte APR header does not match the header.",
    why: "The header says where everything is, so none of it can be believed.",
    fix: "Download the file again.",
  },
  "format/apr.no-header-crc": {
    severity: "warning",
    what: "The header's CRC-32 is zero.",
    why: "realizar wrote such files until January 2026; nothing protects their header. This is a warning.",
    fix: "Nothing needs to be done; tare upgrade writes a file with checksums.",
  },
  "format/apr.no-footer": {
    what: "The file ends with its data, without the CRC-32 that aprender puts there.",
    why: "realizar leaves it out; in files of aprender it was cut off, and then it is an error for verify.",
    fix: "Nothing needs to be done for files of realizar; get other files again.",
  },
  "format/apr.trailing-bytes": {
    what: "There are bytes that nothing describes: after the checksum, or between data and checksum.",
    why: "Readers ignore them, so the file opens; where the checksum does not cover them, verify calls it an error.",
    fix: AGAIN,
  },
  "format/apr.reserved": {
    severity: "warning",
    what: "Reserved bytes of the header, or of an entry of the index, are not zero.",
    why: "Readers ignore them; this is a warning.",
    fix: "Nothing needs to be done.",
  },
  "format/apr.idle-flag": {
    severity: "warning",
    what: "A flag announces encryption or a signature, which these programs never implemented.",
    why: "The data is stored as it is, whatever the flag says; this is a warning.",
    fix: "Do not rely on the flag.",
  },
  "format/apr.late-flag": {
    severity: "note",
    what: "The checksum is right for the file before a compression flag was set in its header.",
    why: "The program that compressed the file did not compute it again; this is a note.",
    fix: "Nothing needs to be done.",
  },
  "format/apr.unsorted": {
    severity: "warning",
    what: "The index is not sorted by name.",
    why: "aprender refuses such files or misses tensors; here every tensor is found. This is a warning.",
    fix: "Write the file again with: tare convert IN OUT --layout aprender",
  },
  "format/apr.unknown-type": {
    what: "A tensor has a type that no version of these programs defines.",
    why: "Its size is known, so the file opens and the bytes can be read and copied, but not as numbers; verify calls it an error.",
    fix: "Look for a newer version of tare.",
  },
  "format/apr.mislabelled": {
    what: "A tensor's size fits none of the types that its label has ever stood for.",
    why: "realizar labels types it does not know as F32, and aprender writes whatever size it is given. Reading such bytes as numbers would give wrong weights.",
    fix: "Take the bytes with tare cat, or convert the original model again.",
  },
  "format/apr.packed": {
    what: "The compressed part of the file does not hold what it announces.",
    why: "The length in front of it is wrong, or something else than an APR1 file was compressed.",
    fix: AGAIN,
  },
  "format/apr.extras": {
    what: "The vocabulary or filterbank of a whisper.apr file contradicts its own counts.",
    why: "Counts are compared with the bytes that follow before anything is read for them.",
    fix: AGAIN,
  },
  "format/apr.aprn-payload": {
    severity: "warning",
    what: "The file is an APRN container, whose model is not stored as tensors.",
    why: "The payload is a structure of the program that wrote it, and its fields are not described in the file. This is a warning.",
    fix: "Keep the payload as bytes with tare upgrade --wrap, or load and save the model with aprender.",
  },
  "limit/apr.unpacked-bytes": {
    what: "A file that is compressed as a whole is larger than this reader is willing to hold.",
    why: "There is no random access into such a file: it is unpacked into memory.",
    fix: "Raise the limit apr.unpackedBytes if you trust the file and have the memory.",
  },
  "limit/apr.extras": {
    what: "The vocabulary or filterbank of a whisper.apr file has more values than the limit.",
    why: "Each costs memory; real vocabularies have some fifty thousand tokens.",
    fix: "Raise the limit apr.metadataValues if you trust the file.",
  },
  "unsupported/apr.column-major": {
    what: "The file says that its tensors are column-major.",
    why: "No writer made such files on purpose: the flag marks a failed import, and aprender refuses them too.",
    fix: "Import the model again with a current aprender.",
  },
  "unsupported/apr.whisper-compressed": {
    what: "A whisper.apr file says that its weights are compressed.",
    why: "The flag was reserved and never used, so the meaning of such bytes is unknown.",
    fix: "Make the file again without compression.",
  },
  "unsupported/apr.whisper-entries": {
    what: "A tensor of a whisper.apr file has more than four dimensions.",
    why: "The index has room for four; files of 13 to 16 December 2025 have another index, with unusable shapes.",
    fix: "Make the file again with a later version of whisper.apr.",
  },
  "unsupported/apr.aprn-encrypted": {
    what: "The payload of an APRN container is encrypted.",
    why: "aprender has two ways of doing that, and nothing in the file says which one was used.",
    fix: "Decrypt it with aprender.",
  },
  "usage/apr.layout": {
    what: "The layout asked for is not one that can be written.",
    why: 'APR files are written in the specification\'s layout ("spec") or in the one that aprender reads ("aprender").',
    fix: "Use --layout spec or --layout aprender.",
  },
} as const satisfies ErrorCatalog;
