import type { ErrorCatalog } from "../../base/errors.ts";

const AGAIN = "Download the file again; if the copy is whole, its writer made a mistake.";

/** Reasons to refuse writing AERO. */
const AERO_WRITE_ERRORS = {
  "usage/aero.align": {
    what: "The alignment asked for is not a power of two, or beyond 16 MiB.",
    why: "Tensors begin on multiples of it, so that they can be mapped into memory and used in place.",
    fix: "Choose a power of two: 64 is the default, 4096 is a memory page, 1 packs tight.",
  },
  "usage/aero.shard-size": {
    what: "The largest size of a shard must be a whole number of bytes above zero.",
    why: "Shards are filled up to it; a tensor that is larger gets a shard of its own.",
    fix: "Give a size such as 2GiB, or leave the option out.",
  },
  "usage/aero.page-size": {
    what: "The size of a hashed page must be a whole number of bytes from 1 to 256 MiB.",
    why: "Every page of a shard gets a digest, and a reader holds a page until it has checked it.",
    fix: "Give a size such as 4MiB, or leave it out.",
  },
  "usage/aero.uuid": {
    what: "The identity of the file must have 16 bytes.",
    why: "The header has room for exactly those.",
    fix: "Give 32 hex digits, with or without dashes.",
  },
  "usage/aero.chunks": {
    what: "The file would have more chunks than readers accept.",
    why: "The specification caps a file at 1,000,000 chunks; every shard is one, and with page hashes two.",
    fix: "Choose a larger shard size.",
  },
  "limit/aero.planned-metadata": {
    what: "The tensor index or the metadata would be larger than readers accept.",
    why: "The specification caps a metadata chunk at 2 GiB, which some 10 to 40 million tensors reach.",
    fix: "Split the model into several files.",
  },
  "unsupported/aero.sequential-output": {
    what: "The output can only be written from front to back.",
    why: "An AERO file begins with digests of the weights that come later, so its beginning is written last.",
    fix: "Write to a file, then send that.",
  },
} as const satisfies ErrorCatalog;

/** All errors of reading and writing AERO. */
export const AERO_ERRORS = {
  "format/aero.header": {
    what: "The file begins like AERO but its header of 96 bytes is cut short or breaks a rule.",
    why: "header_size must be 96 and file_flags 0: anything else is damage, or a layout that is not defined.",
    fix: AGAIN,
  },
  "unsupported/aero.version": {
    what: "The file is an AERO file of another version than 0.1.",
    why: "The specification defines 0.1 only; a reader that guesses would read the wrong places.",
    fix: "Update tare, or get a copy in version 0.1.",
  },
  "format/aero.toc": {
    what: "An entry of the table of contents is cut short.",
    why: "Entries have 80 bytes each; the table ends inside one.",
    fix: AGAIN,
  },
  "format/aero.toc-bounds": {
    what: "The table of contents or the string table does not lie inside the file.",
    why: "Either the file is cut short, or the header is damaged; nothing is read or allocated for it.",
    fix: AGAIN,
  },
  "format/aero.toc-length": {
    what: "The table of contents is too short for its own header or for the entries it announces.",
    why: "toc_length must be at least 16 + 80 for each entry.",
    fix: AGAIN,
  },
  "format/aero.chunk-bounds": {
    what: "A chunk reaches beyond the end of the file.",
    why: "Downloads and copies that were cut off leave such files.",
    fix: AGAIN,
  },
  "format/aero.name-bounds": {
    what: "The name of a chunk lies outside the string table.",
    why: "name_off + name_len must stay within string_table_length.",
    fix: AGAIN,
  },
  "format/aero.name-utf8": {
    what: "The name of a chunk is not valid UTF-8.",
    why: "Shards are found by name; one that cannot be spelled cannot be asked for.",
    fix: AGAIN,
  },
  "format/aero.chunk-size": {
    what: "chunk_ulen is not the length that the chunk has.",
    why: "A raw chunk is as long as it is stored; a compressed one must give exactly chunk_ulen bytes.",
    fix: AGAIN,
  },
  "format/aero.zstd": {
    what: "A compressed chunk is no single zstd frame of chunk_ulen bytes.",
    why: "It is damaged, holds more than one frame, or expands beyond what the table of contents says.",
    fix: AGAIN,
  },
  "format/aero.compressed": {
    what: "A chunk that must be stored raw has the flag COMPRESSED_ZSTD.",
    why: "Weights, page hashes and the control hash are never compressed; compressed bytes are not handed out as weights.",
    fix: "Write the file again without compressing these chunks.",
  },
  "format/aero.tidx": {
    what: "An entry of the tensor index breaks its schema.",
    why: "A field is missing, comes twice, or has another form than the specification gives it.",
    fix: AGAIN,
  },
  "format/aero.mjsn": {
    what: "The JSON metadata is no object.",
    why: "Metadata are keys and values; the weights are readable without them.",
    fix: AGAIN,
  },
  "format/aero.ihsh": {
    what: "The control hash chunk breaks its schema, or does not cover the header and the tables.",
    why: "A digest over less than all of them would let the rest be changed unseen.",
    fix: AGAIN,
  },
  "format/aero.phsh": {
    what: "A page hash chunk breaks its schema, or does not fit its shard.",
    why: "Every page needs a digest: without it, what is read could not be checked.",
    fix: AGAIN,
  },
  "format/aero.duplicate-name": {
    what: "Two tensors have the same name.",
    why: "Readers disagree on which one counts, so a file can mean two things.",
    fix: AGAIN,
  },
  "format/aero.tensor-size": {
    what: "A tensor has fewer bytes than its shape and type need.",
    why: "Reading it would hand out bytes of another tensor, or none.",
    fix: AGAIN,
  },
  "format/aero.tensor-bounds": {
    what: "A tensor reaches beyond the end of its shard.",
    why: "The index or the shard is damaged; bytes outside the shard are never handed out.",
    fix: AGAIN,
  },
  "format/aero.missing-shard": {
    what: "Tensors refer to a shard that the file does not have.",
    why: "Shard N is the WTSH chunk called weights.shardN; an index file of a set has none of them.",
    fix: "Open the set by its model.aeroset.json, or get the whole file.",
  },
  "format/aero.overlap": {
    what: "Two chunks, or a chunk and a table, share bytes of the file.",
    why: "An early writer of tensor hashes overwrote the beginning of the first shard this way.",
    fix: "Get a copy from another writer: the overwritten weights are lost.",
  },
  "format/aero.tensor-overlap": {
    severity: "warning",
    what: "Two tensors share a part of their bytes.",
    why: "Tied tensors share all of them, which is fine; sharing a part is most often a wrong offset.",
    fix: "Compare the two tensors with another copy of the model.",
  },
  "format/aero.tensor-padding": {
    severity: "warning",
    what: "Tensors have more bytes than their shape and type need.",
    why: "Converters from GGUF have counted its padding as data. The bytes after the last element are left out.",
    fix: "Nothing to do; writing the file again with tare removes them.",
  },
  "format/aero.long-name": {
    severity: "warning",
    what: "A tensor's name is longer than 4096 bytes.",
    why: "The specification sets no bound, but the C++ reader refuses such files.",
    fix: "Shorten the names if other readers are to open the file.",
  },
  "format/aero.rank": {
    severity: "warning",
    what: "A tensor has more than 32 dimensions.",
    why: "The specification sets no bound, but the C++ reader refuses such files.",
    fix: "Merge dimensions if other readers are to open the file.",
  },
  "format/aero.reserved": {
    severity: "warning",
    what: "A reserved field is not zero.",
    why: "The specification says it must be; readers have never looked, so the file is read all the same.",
    fix: "Write the file again if another reader refuses it.",
  },
  "format/aero.surplus": {
    severity: "warning",
    what: "Bytes of the string table are in no chunk's name, or bytes follow the value of the IHSH chunk.",
    why: "The specification has no place for them. Readers skip them, and a file that is written again does not have them.",
    fix: "Look at the bytes if they may matter; convert the file with the option allowLossy to leave them out.",
  },
  "format/aero.hidden-chunk": {
    severity: "warning",
    what: "Two chunks of one kind claim the same place; the first one counts.",
    why: "The specification expects one of each; the reference takes the first, and so does tare.",
    fix: "Write the file again with one of them.",
  },
  "format/aero.page-shard": {
    severity: "warning",
    what: "A page hash chunk names another shard than the one it belongs to by its own name.",
    why: "tare finds it by its name, as the reference does; the name inside is only shown.",
    fix: "Write the file again, or compare it with another copy.",
  },
  "unsupported/aero.algo": {
    what: "The control hash uses an algorithm other than blake3-256.",
    why: "AIP-0001 defines only that one.",
    fix: "Update tare, or check the file with the tool that wrote it.",
  },
  "integrity/aero.chunk-hash": {
    what: "A chunk's BLAKE3 digest is not the one in the table of contents.",
    why: "The bytes are not the ones that were written. One early writer left the digest of MJSN zero.",
    fix: "Download the file again.",
  },
  "integrity/aero.page-hash": {
    what: "A page of a weight shard is damaged.",
    why: "Its BLAKE3 digest is not the one in the PHSH chunk; nothing of the page is handed out.",
    fix: "Download the file again, or only the byte range that the message names.",
  },
  "integrity/aero.tensor-hash": {
    what: "A tensor is damaged.",
    why: "Its BLAKE3 digest is not the hash_b3 of the index; nothing of it is handed out.",
    fix: "Download the file again, or only the byte range that the message names.",
  },
  "integrity/aero.control-hash": {
    what: "The header, the table of contents or the string table was changed.",
    why: "Their BLAKE3 digest is not the one in the IHSH chunk, which leaves out only the digests of the chunks.",
    fix: "Download the file again; do not trust offsets and names of this copy.",
  },
  "integrity/aero.no-control-hash": {
    severity: "warning",
    what: "The file has no IHSH chunk, so its header and tables cannot be checked.",
    why: "The chunk is optional; without it only the digests of the chunks can be compared.",
    fix: "Write the file again with --control-hash.",
  },
  "limit/aero.chunks": {
    what: "The table of contents announces more chunks than allowed.",
    why: "The specification caps a file at 1,000,000; the count is judged before anything is read for it.",
    fix: "Raise the limit aero.chunks only for a file you trust.",
  },
  "limit/aero.string-table-bytes": {
    what: "The string table is longer than allowed.",
    why: "The specification caps it at 512 MB; the length is judged before anything is read for it.",
    fix: "Raise the limit aero.stringTableBytes only for a file you trust.",
  },
  "limit/aero.metadata-bytes": {
    what: "A metadata chunk is longer than allowed, stored or decompressed.",
    why: "The specification caps it at 2 GB; the length is judged before anything is read or decompressed.",
    fix: "Raise the limit aero.metadataBytes only for a file you trust.",
  },
  "limit/aero.tensors": {
    what: "The index announces more tensors than allowed.",
    why: "Every tensor costs memory for as long as the file is open.",
    fix: "Raise the limit aero.tensors if you trust the file and have the memory.",
  },
  "limit/aero.name-bytes": {
    what: "A tensor's name is longer than allowed.",
    why: "Names of a megabyte are no names.",
    fix: "Raise the limit aero.nameBytes if you trust the file.",
  },
  "limit/aero.dimensions": {
    what: "A tensor has more dimensions than allowed.",
    why: "Array libraries stop at 64.",
    fix: "Raise the limit aero.dimensions if you trust the file.",
  },
  "limit/aero.verify-bytes": {
    what: "A page or a remote tensor is too long to be held in memory until it has been checked.",
    why: "Bytes are handed out only after their digest was found right, and it covers all of them.",
    fix: "Raise the limit aero.verifyBytes, download the file first, or write it with smaller pages.",
  },
  "limit/aero.hash-work": {
    what: "Tensors, or chunks, overlap so much that hashing them would take many times the length of what holds them.",
    why: "Sharing bytes is allowed, but a crafted table could make every byte be hashed a million times.",
    fix: "Check the file's origin: no writer makes such files.",
  },
  "usage/aero.container": {
    what: "A function of the AERO format was called with something of another format.",
    why: "Each format works on its own models and plans.",
    fix: "Use the format that opened the file: openSource() returns both.",
  },
  ...AERO_WRITE_ERRORS,
} as const satisfies ErrorCatalog;
