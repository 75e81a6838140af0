import type { ErrorCatalog } from "../../base/errors.ts";

const ANOTHER_COPY = "Get another copy of the file.";

/** All errors and warnings of SafeTensors files and sets. */
export const SAFETENSORS_ERRORS = {
  "format/safetensors.too-short": {
    what: "The file ends inside the 8-byte header length.",
    why: "A download or copy that was cut off leaves such a file.",
    fix: ANOTHER_COPY,
  },
  "format/safetensors.header-length": {
    what: "The header length points beyond the end of the file.",
    why: "The file was cut short inside its header, or is no SafeTensors file.",
    fix: ANOTHER_COPY,
  },
  "format/safetensors.utf8": {
    what: "The header is not UTF-8.",
    why: "The header is JSON in UTF-8 by specification; other bytes are damage.",
    fix: ANOTHER_COPY,
  },
  "format/safetensors.header": {
    what: "The header is JSON, but a value in it has the wrong type or a field is missing.",
    why: "A tensor needs dtype, shape and data_offsets of unsigned integers; __metadata__ holds strings only.",
    fix: "Write the file again with a current SafeTensors library.",
  },
  "format/safetensors.duplicate-key": {
    what: "A tensor, a field or a metadata key appears twice.",
    why: "Readers disagree on which of the two counts, which is how one file shows two faces.",
    fix: "Write the file again with unique names.",
  },
  "format/safetensors.offsets": {
    what: "A tensor's data_offsets end before they begin.",
    why: "Such a range has no length; the header is damaged or crafted.",
    fix: ANOTHER_COPY,
  },
  "format/safetensors.partial-byte": {
    what: "A tensor of a 4- or 6-bit type does not fill whole bytes.",
    why: "Sub-byte types are packed, so shape and dtype must give a multiple of eight bits.",
    fix: "Write the file again with a shape that fills whole bytes.",
  },
  "format/safetensors.size-mismatch": {
    what: "A tensor's range has another length than its dtype and shape need.",
    why: "Reading it would give bytes of a neighbour, or too few.",
    fix: ANOTHER_COPY,
  },
  "format/safetensors.hole": {
    what: "There are bytes between two tensors that belong to none.",
    why: "The format forbids holes, so that nothing can be hidden in a file and every reader sees all of it.",
    fix: "Write the file again with a current SafeTensors library.",
  },
  "format/safetensors.overlap": {
    what: "Two tensors share bytes.",
    why: "The format forbids it: a small file could claim to hold a huge model.",
    fix: "Write the file again with a current SafeTensors library.",
  },
  "format/safetensors.truncated": {
    what: "The file ends before its last tensor does.",
    why: "A download or copy was cut off; the header is whole, so the loss shows here.",
    fix: ANOTHER_COPY,
  },
  "format/safetensors.trailing-bytes": {
    what: "There are bytes after the last tensor.",
    why: "The format forbids them, so that nothing can be appended unseen.",
    fix: "Cut the file at the offset given, if you know where the extra bytes come from.",
  },
  "format/safetensors.header-padding": {
    severity: "note",
    what: "The header length is not a multiple of 8.",
    why: "Writers pad it with spaces so that tensor data is aligned in memory; readers accept it either way.",
    fix: "Convert the file to SafeTensors again if a program complains about alignment.",
  },
  "format/safetensors.bool-value": {
    severity: "warning",
    what: "A BOOL tensor holds a byte other than 0 or 1.",
    why: "The format does not forbid it, but programs treat such bytes differently.",
    fix: "Write the tensor again as BOOL, or as U8 if the values are meant.",
  },
  "format/safetensors.index": {
    what: "The shard index is JSON, but not of the form { metadata, weight_map }.",
    why: "weight_map must give a file name for each tensor name, and never that of an index.",
    fix: "Write the index again, or open the shards one by one.",
  },
  "format/safetensors.missing-tensor": {
    what: "The index promises a tensor that its shard does not have.",
    why: "Index and shards are from different versions of the model, or a shard was replaced.",
    fix: "Get index and shards again, from the same place.",
  },
  "format/safetensors.unlisted-tensor": {
    severity: "warning",
    what: "A shard holds a tensor that the index does not list there.",
    why: "Programs that go by the index never see it.",
    fix: "Write the set again with `tare merge` and `tare shard` if the tensor is meant to be there.",
  },
  "format/safetensors.total-size": {
    severity: "warning",
    what: "The index states another total_size than its tensors have.",
    why: "The number is only informative, and old writers counted shared tensors twice.",
    fix: "Nothing needs to be done; writing the set again corrects it.",
  },
  "format/safetensors.metadata-differs": {
    severity: "warning",
    what: "Shards of one set have different values under the same metadata key.",
    why: "A set has one metadata; the first shard's value is taken.",
    fix: "Write the set again with `tare merge` and `tare shard`.",
  },
  "unsupported/safetensors.dtype": {
    what: "A tensor has a dtype that this version does not know.",
    why: "The format gains types over time, and the name may also be damaged.",
    fix: "Update tare, or get another copy of the file.",
  },
  "limit/safetensors.header-bytes": {
    what: "The header is longer than 100 000 000 bytes.",
    why: "The reference implementation refuses it too; a damaged length field looks the same.",
    fix: "Get another copy of the file, or raise the limit if you trust it.",
  },
  "limit/safetensors.keys": {
    what: "`__metadata__` has more keys than this reader accepts.",
    why: "Each key costs memory; real files have fewer than a thousand.",
    fix: "Raise the limit safetensors.keys if you trust the file.",
  },
  "limit/safetensors.dimensions": {
    what: "A tensor has more dimensions than this reader accepts.",
    why: "No program needs that many; a crafted header might.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/safetensors.index-bytes": {
    what: "The shard index is longer than this reader accepts.",
    why: "It is parsed in memory.",
    fix: "Raise the limit if you trust the file.",
  },
  "limit/safetensors.shards": {
    what: "The index names more shards than this reader opens.",
    why: "Every shard is opened to check it.",
    fix: "Raise the limit if you trust the index.",
  },
  "usage/safetensors.no-siblings": {
    what: "A shard index was opened where its shards cannot be reached.",
    why: "An index holds names only; types, shapes and bytes are in the shards beside it.",
    fix: "Open the folder or URL with the shards, or a single shard.",
  },
} as const satisfies ErrorCatalog;
