import type { ErrorCatalog } from "../../base/errors.ts";

const ANOTHER_COPY = "Get another copy of the file.";
const WRITE_AGAIN = "Write the file again, with `tare convert IN OUT.weights` for instance.";

/** All errors and warnings of EMBD files. */
export const EMBD_ERRORS = {
  "format/embd.too-short": {
    what: "The file ends inside its header.",
    why: "A download or copy that was cut off leaves such a file.",
    fix: ANOTHER_COPY,
  },
  "format/embd.header": {
    what: "The header is not one of the specification's layout.",
    why: "It was opened as such on request, or is damaged.",
    fix: ANOTHER_COPY,
  },
  "format/embd.truncated": {
    what: "The file is shorter than it says.",
    why: "A download or copy was cut off.",
    fix: ANOTHER_COPY,
  },
  "format/embd.no-footer": {
    what: "The 16 bytes of the footer are missing; everything before them is there.",
    why: "The file was cut at the end of its tensors, or written by a program that leaves the footer out.",
    fix: "Get another copy, or write the file again: without a footer nothing tells whether the tensors are whole.",
  },
  "format/embd.footer": {
    what: "The footer does not end with the letters DBME.",
    why: "The last bytes are damaged, or something was cut out or added before them.",
    fix: ANOTHER_COPY,
  },
  "format/embd.trailing-bytes": {
    what: "There are bytes after the end that the file gives itself.",
    why: "Something was appended, or a longer file was overwritten without cutting it.",
    fix: "Cut the file at the offset given, if you know where the extra bytes come from.",
  },
  "format/embd.section": {
    what: "A section lies outside the file, in the header or footer, or over another one.",
    why: "Offsets or lengths in the header are damaged, or the file was crafted.",
    fix: ANOTHER_COPY,
  },
  "format/embd.metadata": {
    what: "The metadata section does not hold as many entries as it says.",
    why: "A count or length in it is damaged.",
    fix: ANOTHER_COPY,
  },
  "format/embd.vocabulary": {
    what: "The vocabulary section does not hold as many tokens as it says.",
    why: "A count or length in it is damaged, or the flag that announces it was set by mistake.",
    fix: ANOTHER_COPY,
  },
  "format/embd.special-tokens": {
    what: "The ids of [PAD], [UNK], [CLS], [SEP] and [MASK] are not those of the tokens with these names.",
    why: "The block was not found where the section says, or a writer put other numbers there. The tokens are believed.",
    fix: WRITE_AGAIN,
  },
  "format/embd.total-size": {
    what: "total_size of the metadata or vocabulary is not the length of the entries.",
    why: "Some writers count the header of the section or the special ids as well, which is read with a warning.",
    fix: WRITE_AGAIN,
  },
  "format/embd.index": {
    what: "The tensor index ends before its last name.",
    why: "A name_length or the count of tensors is damaged.",
    fix: ANOTHER_COPY,
  },
  "format/embd.name-hash": {
    what: "A tensor's name_hash is not the FNV-1a hash of its name.",
    why: "The name or the hash is damaged, or a writer used another hash. The name is what counts.",
    fix: WRITE_AGAIN,
  },
  "format/embd.dimensions": {
    what: "A tensor has no dimensions, or more than four.",
    why: "The format allows one to four.",
    fix: ANOTHER_COPY,
  },
  "format/embd.unused-dimension": {
    what: "A dimension that the tensor does not use is not 0.",
    why: "The specification wants 0 there; the value is ignored.",
    fix: WRITE_AGAIN,
  },
  "format/embd.empty-dimension": {
    what: "A tensor has a dimension of 0, so no elements.",
    why: "The schema of the original program demands at least 1; other readers may refuse the file.",
    fix: "Leave the tensor out: `tare convert --exclude NAME`.",
  },
  "format/embd.data-range": {
    what: "A tensor's data does not lie inside the tensor data of the file, or has another length than its shape needs.",
    why: "Its offset or shape is damaged, or the file was crafted.",
    fix: ANOTHER_COPY,
  },
  "format/embd.alignment": {
    what: "The file promises aligned tensors, but one is not at a multiple of 64.",
    why: "Its offset is damaged, or the flag was set by mistake.",
    fix: ANOTHER_COPY,
  },
  "format/embd.data-alignment": {
    what: "Tensors are aligned among themselves, but the data as a whole begins at no multiple of 64.",
    why: "The specification does not say what alignment counts from. Such a file is read; it cannot be mapped as numbers.",
    fix: WRITE_AGAIN,
  },
  "format/embd.overlap": {
    what: "Two tensors share bytes without being the same.",
    why: "A small file could claim to hold a large model; one of the offsets is damaged or crafted.",
    fix: ANOTHER_COPY,
  },
  "format/embd.duplicate-name": {
    what: "Two tensors have the same name.",
    why: "Readers disagree on which of the two counts; the original program takes the last.",
    fix: "Write the file again with unique names.",
  },
  "format/embd.duplicate-key": {
    what: "A metadata key appears twice.",
    why: "Readers disagree on which of the two counts.",
    fix: "Write the file again with unique keys.",
  },
  "format/embd.duplicate-token": {
    severity: "warning",
    what: "Two ids of the vocabulary have the same token.",
    why: "Only one of them can ever come out of a text: the later one, as in other loaders.",
    fix: "Nothing needs to be done if the vocabulary is meant to be so.",
  },
  "format/embd.utf8": {
    what: "A name, key, value or token is not UTF-8.",
    why: "The specification assumes UTF-8; other bytes are damage or another encoding. Values and tokens keep their bytes.",
    fix: ANOTHER_COPY,
  },
  "format/embd.minor-version": {
    what: "The file is of a later minor version than 1.0.",
    why: "Minor versions are meant to be readable, but what is new in it is not known to this version.",
    fix: "Update tare if something is missing.",
  },
  "format/embd.unknown-flags": {
    what: "The header has flags that the specification does not define.",
    why: "A later version may have given them a meaning, or the word is damaged.",
    fix: "Update tare if something is missing.",
  },
  "format/embd.reserved": {
    what: "A reserved word of the header or footer is not 0.",
    why: "A later version may have given it a meaning, or it is damaged; nothing depends on it.",
    fix: WRITE_AGAIN,
  },
  "format/embd.reserved-key": {
    what: "The metadata has a text under the key under which the vocabulary is shown.",
    why: "tare shows the vocabulary section as `vocabulary.tokens` and `vocabulary.special`, so the text has no place.",
    fix: "Rename the key in the program that writes it.",
  },
  "format/embd.unused-vocabulary": {
    what: "There is a vocabulary section, but the flag that announces it is clear.",
    why: "The writer forgot the flag, or meant the vocabulary not to be used.",
    fix: "Set bit 0 of the flags in the program that writes it, if the vocabulary is meant.",
  },
  "format/embd.vocabulary-size": {
    what: "The number of tokens is not the vocab_size of the metadata, the rows of the word table, or what others accept.",
    why: "Vocabulary and weights are from different models, or the vocabulary was cut.",
    fix: "Give the model its own vocabulary.",
  },
  "format/embd.required-key": {
    severity: "warning",
    what: "The metadata lacks keys that the specification requires.",
    why: "Programs that embed need them; tare takes most of the numbers from the shapes.",
    fix: "Add them: `tare stamp FILE --set num_attention_heads=12`.",
  },
  "format/embd.padding": {
    severity: "warning",
    what: "A byte between sections or tensors is not zero.",
    why: "Padding is zeros by specification; something is hidden or damaged there, but no tensor is.",
    fix: WRITE_AGAIN,
  },
  "format/embd.stream": {
    what: "A file of the stream layout announces more tensors than it has room for.",
    why: "The count is damaged.",
    fix: ANOTHER_COPY,
  },
  "format/embd.adr": {
    what: "The table of a file of the ADR-002 layout is not as long as its count says.",
    why: "The count or the length is damaged.",
    fix: ANOTHER_COPY,
  },
  "format/embd.orientation": {
    what: "Nothing tells whether linear weights of a stream are stored as [out, in] or transposed.",
    why: "The layout does not say, and all matrices are square, or their shapes contradict each other.",
    fix: "Convert the model from its original instead, or say it through the library: openEmbd(…, { orientation }).",
  },
  "integrity/embd.header-checksum": {
    what: "The checksum of the header does not match.",
    why: "One of its first 56 bytes is damaged, so no offset in it can be trusted.",
    fix: ANOTHER_COPY,
  },
  "integrity/embd.data-checksum": {
    what: "The checksum of the tensor data does not match.",
    why: "At least one byte of a tensor, or of the padding between them, is damaged.",
    fix: ANOTHER_COPY,
  },
  "integrity/embd.file-checksum": {
    what: "The checksum of the whole file does not match.",
    why: "Where the tensor data's own checksum holds, the damage is in the metadata, vocabulary or index.",
    fix: ANOTHER_COPY,
  },
  "integrity/embd.footer": {
    what: "The footer's checksum of the tensor data is wrong, but the checksum of the whole file is right.",
    why: "The tensors are whole: the stored checksum itself is damaged, which nothing protects.",
    fix: WRITE_AGAIN,
  },
  "integrity/embd.no-control-digest": {
    severity: "note",
    what: "Metadata, vocabulary and index have no checksum of their own.",
    why: "The checksum of the footer covers the whole file, so only a full check can tell.",
    fix: "Run `tare verify --full`.",
  },
  "unsupported/embd.layout": {
    what: "The file begins with the letters EMBD, but has none of the three layouts that are known.",
    why: "Other programs use the same letters, and a damaged header looks like this, too.",
    fix: "Check what wrote the file; get another copy if it was a converter for embedding models.",
  },
  "unsupported/embd.version": {
    what: "The file is of another major version than 1.",
    why: "Another major version may mean anything; the bytes may also be damaged or swapped.",
    fix: "Update tare, or get another copy of the file.",
  },
  "unsupported/embd.compressed": {
    what: "The file says that its tensors are compressed.",
    why: "The specification reserves the flag and names no algorithm.",
    fix: "Write the file without compression.",
  },
  "unsupported/embd.dtype": {
    what: "A tensor has a type code beyond 8.",
    why: "The specification defines nine types; the code may also be damaged.",
    fix: "Update tare, or get another copy of the file.",
  },
  "limit/embd.metadata-bytes": {
    what: "The metadata section is longer than this reader accepts.",
    why: "It is kept in memory.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/embd.vocabulary-bytes": {
    what: "The vocabulary is longer than this reader accepts.",
    why: "It is kept in memory.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/embd.tokens": {
    what: "The vocabulary has more tokens than this reader accepts.",
    why: "Every token takes memory beside its text.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/embd.tensors": {
    what: "The file has more tensors than this reader accepts.",
    why: "Every tensor takes memory.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/embd.text-bytes": {
    what: "A name or token of a stream is longer than 1 MiB.",
    why: "The program that reads this layout refuses it, too; a damaged length looks the same.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/embd.front-bytes": {
    what: "Metadata, vocabulary and index would end beyond 4 GiB.",
    why: "The offset of the tensor data has 32 bits.",
    fix: "Leave some of the metadata out, or choose another format.",
  },
  "usage/embd.align": {
    what: "An alignment was asked for that the format cannot announce.",
    why: "Its flag says 64 bytes or nothing.",
    fix: "Use --align 64, or --align 1 for no padding at all.",
  },
  "usage/embd.container": {
    what: "A container or plan of another format was handed to this one's code.",
    why: "Programs that use the library mixed up two of them.",
    fix: "Use the format that openSource gave.",
  },
} as const satisfies ErrorCatalog;
