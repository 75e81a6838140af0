import type { ErrorCatalog } from "../../base/errors.ts";

const AGAIN = "Download the file again; if the copy is whole, its writer made a mistake.";

/** All errors of reading and writing GGUF. */
export const GGUF_ERRORS = {
  "format/gguf.header": {
    what: "The file begins like GGUF but has fewer than the 24 bytes of its fixed header.",
    why: "A download that was cut off at once leaves such a file.",
    fix: "Download the file again.",
  },
  "format/gguf.header-bounds": {
    what: "A length or count in the header reaches beyond the end of the file.",
    why: "Either the file is cut short inside its header, or the field is damaged; nothing is read or allocated for it.",
    fix: AGAIN,
  },
  "format/gguf.count": {
    what: "The header announces more tensors and keys than the file has room for.",
    why: "Even the smallest entries would not fit, so the counts or the length of the file are wrong.",
    fix: AGAIN,
  },
  "format/gguf.value-type": {
    what: "A metadata value has a type id that GGUF does not define.",
    why: "Without the type its length is unknown, so nothing after it can be found.",
    fix: AGAIN,
  },
  "format/gguf.value": {
    what: "The bytes of a metadata value do not hold what its type says.",
    why: "This happens to values kept in tare.origin that someone edited.",
    fix: "Use the file as it was before it was edited.",
  },
  "format/gguf.key-utf8": {
    what: "A metadata key is not valid UTF-8.",
    why: "Keys are names; one that cannot be spelled cannot be asked for or written again safely.",
    fix: AGAIN,
  },
  "format/gguf.name-utf8": {
    what: "A tensor name is not valid UTF-8.",
    why: "A name that cannot be spelled cannot be asked for or written to other formats.",
    fix: AGAIN,
  },
  "format/gguf.duplicate-key": {
    what: "Two metadata entries have the same key.",
    why: "Readers disagree on which one counts, so a file can mean two things.",
    fix: "Write the file again with one of the two values.",
  },
  "format/gguf.duplicate-name": {
    what: "Two tensors have the same name, in one file or across the parts of a set.",
    why: "Readers disagree on which one counts, so a file can mean two things.",
    fix: AGAIN,
  },
  "format/gguf.alignment": {
    what: "general.alignment is not a power of two stored as u32.",
    why: "Tensor offsets depend on it; llama.cpp refuses such files as well.",
    fix: "Write the file again with an alignment such as 32.",
  },
  "format/gguf.rank": {
    what: "A tensor has more than four dimensions.",
    why: "ggml tensors have at most four; a higher number is usually damage.",
    fix: "Raise the limit gguf.dimensions if a writer really makes such files.",
  },
  "format/gguf.offset-alignment": {
    what: "A tensor's offset is not a multiple of general.alignment.",
    why: "The specification demands it, and readers that map the file rely on it.",
    fix: AGAIN,
  },
  "format/gguf.overlap": {
    what: "Two tensors share bytes of the file.",
    why: "Overlap is how a small file claims to hold a large model.",
    fix: AGAIN,
  },
  "format/gguf.truncated": {
    what: "The file ends before the last tensor does.",
    why: "Downloads and copies that were cut off leave such files; the header is whole, so it is known what is missing.",
    fix: "Download the file again.",
  },
  "format/gguf.split": {
    what: "The parts of a split model do not belong together.",
    why: "Their numbers or the total count of tensors disagree: parts of two models were mixed, or one is stale.",
    fix: "Download all parts again from the same place.",
  },
  "format/gguf.empty-key": {
    severity: "warning",
    what: "A metadata key is empty.",
    why: "gguf-py reads such files, llama.cpp refuses them; this is a warning.",
    fix: "Remove the key if llama.cpp has to load the file.",
  },
  "format/gguf.long-name": {
    severity: "warning",
    what: "A tensor name is longer than 63 bytes.",
    why: "llama.cpp refuses such files, other readers do not; this is a warning.",
    fix: "Rename the tensor if llama.cpp has to load the file.",
  },
  "format/gguf.zeros": {
    severity: "warning",
    what: "The tensor table ends in zeros, so that a tensor has no name.",
    why: "The download was interrupted, or its room was reserved and never filled. The header can be read by chance.",
    fix: "Get the file again.",
  },
  "format/gguf.data-order": {
    severity: "warning",
    what: "Tensors are not packed one after the other in the order of the table.",
    why: "gguf-py reads such files, llama.cpp refuses them; this is a warning.",
    fix: "Convert the file to GGUF with a changed alignment or through another tool to pack it.",
  },
  "format/gguf.tail-padding": {
    severity: "warning",
    what: "The padding after the last tensor is missing or incomplete.",
    why: "No weights are lost, but llama.cpp fails to load such files; this is a warning.",
    fix: "Append zero bytes up to the next multiple of the alignment.",
  },
  "format/gguf.trailing-bytes": {
    severity: "warning",
    what: "Bytes follow the last tensor and its padding.",
    why: "Readers ignore them, so this is a warning; writing the file again drops them.",
    fix: "Nothing needs to be done unless the bytes are unexpected.",
  },
  "format/gguf.part-metadata": {
    severity: "warning",
    what: "A later part of a split model has metadata of its own.",
    why: "Only the first part's metadata describes the model; this is a warning.",
    fix: "Nothing needs to be done unless the first part lacks the key.",
  },
  "format/gguf.lone-part": {
    severity: "warning",
    what: "One part of a split model was opened without the others.",
    why: "Its tensors can be read, but they are only a share of the model; this is a warning.",
    fix: "Open the first part with the others beside it, under their original names.",
  },
  "format/gguf.string-utf8": {
    severity: "warning",
    what: "A metadata string is not valid UTF-8.",
    why: "Byte-level vocabularies hold such strings; their bytes are kept, only the shown text is approximate.",
    fix: "Nothing needs to be done.",
  },
  "format/gguf.bool": {
    severity: "note",
    what: "A boolean is stored as a byte other than 0 and 1.",
    why: "Every reader takes it for true; the byte is kept when the file is written again.",
    fix: "Nothing needs to be done.",
  },
  "format/gguf.padding": {
    severity: "note",
    what: "Padding between tensors is not zero.",
    why: "Readers ignore it; writing the file again makes it zero, so the copy differs there.",
    fix: "Nothing needs to be done unless something was hidden there.",
  },
  "limit/gguf.header-bytes": {
    what: "The header is longer than this reader is willing to hold.",
    why: "Metadata and the tensor table stay in memory while the file is open.",
    fix: "Raise the limit gguf.headerBytes if you trust the file.",
  },
  "limit/gguf.keys": {
    what: "The header announces more metadata keys than the limit.",
    why: "Each key costs memory; real files have fewer than a hundred.",
    fix: "Raise the limit gguf.keys if you trust the file.",
  },
  "limit/gguf.tensors": {
    what: "The header announces more tensors than the limit.",
    why: "Each tensor costs memory; real files have at most some ten thousand.",
    fix: "Raise the limit gguf.tensors if you trust the file.",
  },
  "limit/gguf.key-bytes": {
    what: "A metadata key is longer than the limit.",
    why: "The specification allows 65535 bytes.",
    fix: "Raise the limit gguf.keyBytes if you trust the file.",
  },
  "limit/gguf.name-bytes": {
    what: "A tensor name is longer than the limit.",
    why: "Names are held in memory and shown; llama.cpp stops at 63 bytes.",
    fix: "Raise the limit gguf.nameBytes if you trust the file.",
  },
  "limit/gguf.string-bytes": {
    what: "A metadata string is longer than the limit.",
    why: "llama.cpp accepts 1 GiB and so do we.",
    fix: "Raise the limit gguf.stringBytes if you trust the file.",
  },
  "limit/gguf.array-depth": {
    what: "Arrays are nested deeper than the limit.",
    why: "Unbounded nesting is how a small file exhausts a reader's stack.",
    fix: "Raise the limit gguf.arrayDepth if you trust the file.",
  },
  "limit/gguf.alignment": {
    what: "general.alignment is larger than the limit.",
    why: "Every tensor would be padded to it; real files use 32 to 4096.",
    fix: "Raise the limit gguf.alignment if you trust the file.",
  },
  "limit/gguf.parts": {
    what: "A split model announces more parts than the limit.",
    why: "Every part is a file to open.",
    fix: "Raise the limit gguf.parts if you trust the file.",
  },
  "unsupported/gguf.version": {
    what: "The file's GGUF version is neither 2 nor 3.",
    why: "Only these two exist today; another number is a newer version or damage.",
    fix: "Update tare, or download the file again.",
  },
  "unsupported/gguf.version-1": {
    what: "The file is GGUF version 1.",
    why: "Version 1 had 32-bit lengths and was replaced within weeks in August 2023; llama.cpp no longer reads it.",
    fix: "Get a newer copy of the model, or convert its original weights again.",
  },
  "unsupported/gguf.tensor-type": {
    what: "A tensor has a ggml type that this version does not know.",
    why: "The size of its blocks is unknown, so its bytes cannot be located safely.",
    fix: "Update tare.",
  },
  "unsupported/gguf.removed-type": {
    what: "A tensor has a type that ggml once had and removed.",
    why: "Current llama.cpp cannot read it either; the interleaved types were made when a file is loaded ever since.",
    fix: "Quantise the original model again.",
  },
  "unsupported/gguf.big-endian-blocks": {
    what: "The data of a block-quantised tensor in a big-endian file was asked for.",
    why: "Writers disagree on whether the scales inside blocks are swapped, so any reading would be a guess.",
    fix: "Use the little-endian copy of the model.",
  },
  "usage/gguf.align": {
    what: "The alignment asked for is not a power of two from 1 to 1 MiB.",
    why: "llama.cpp refuses files with another alignment.",
    fix: "Choose 32, or another power of two.",
  },
  "usage/gguf.container": {
    what: "A container or plan of another format was handed to the GGUF format object.",
    why: "Each format works on what it opened or planned itself.",
    fix: "This is a mistake in the calling program: use the format that opened the file.",
  },
  "usage/gguf.shards": {
    what: "The shard size asked for gives more than 65535 files.",
    why: "The number of parts is stored in 16 bits.",
    fix: "Choose a larger shard size.",
  },
} as const satisfies ErrorCatalog;
