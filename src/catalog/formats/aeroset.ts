import type { ErrorCatalog } from "../../base/errors.ts";

const ANOTHER_COPY = "Get another copy of the set.";
const WRITE_AGAIN = "Write the set again with a current tool.";
const FETCH_AGAIN = "Download the file again, or get it from where the set was made.";

/** All errors and warnings of sets; their .aero files have the errors of AERO. */
export const AEROSET_ERRORS = {
  "format/aeroset.index": {
    what: "The JSON of the set lacks a key it needs, or a value in it has the wrong type.",
    why: "A set needs global_tidx.path, and path and shards of every part; numbers must be whole and from 0 up.",
    fix: WRITE_AGAIN,
  },
  "format/aeroset.format": {
    severity: "warning",
    what: "The JSON does not call itself AEROSET of version 0.1 or 0.2, although it looks like a set.",
    why: "Other readers never look at it, so such sets exist; it is read as v0.2.",
    fix: "Nothing needs to be done; writing the set again states the format.",
  },
  "format/aeroset.sha256": {
    what: "The JSON has a sha256 that is not 64 hex digits.",
    why: "A placeholder was left in place, or the text was cut. The file cannot be compared with it.",
    fix: WRITE_AGAIN,
  },
  "format/aeroset.address": {
    what: "The JSON names a file by something that is neither a name beside it nor a whole http(s) address.",
    why: "Following other schemes would let a set reach files and services that are none of its business.",
    fix: "Do not trust the set. If it is yours, use relative paths or https addresses.",
  },
  "format/aeroset.no-index": {
    what: "The file that global_tidx names has no tensor index.",
    why: "Without it nothing is known about the tensors of the set.",
    fix: ANOTHER_COPY,
  },
  "format/aeroset.repeated-shard": {
    what: "Two parts of the set claim the same shard.",
    why: "Readers take the last one, so the other part's bytes are never seen; verify counts it as an error.",
    fix: WRITE_AGAIN,
  },
  "format/aeroset.missing-shard": {
    what: "A tensor is in a shard that no part of the set holds.",
    why: "A part was left out of the JSON. The other tensors are readable.",
    fix: "Get the whole set, or write it again.",
  },
  "format/aeroset.missing-tensor": {
    what: "The part that is to hold a tensor has neither the tensor nor its shard.",
    why: "Index and part do not belong together, or the part was replaced.",
    fix: ANOTHER_COPY,
  },
  "format/aeroset.other-part": {
    what: "Where a tensor is to be, the part's own index has another one.",
    why: "Parts of the set were swapped or renamed, or the JSON lists them with each other's shards.",
    fix: ANOTHER_COPY,
  },
  "format/aeroset.tensor-bounds": {
    what: "The global index places a tensor beyond the end of its shard.",
    why: "Index and part do not belong together, or one of them is damaged.",
    fix: ANOTHER_COPY,
  },
  "format/aeroset.disagreement": {
    what: "The global index and the part describe a tensor differently.",
    why: "A part was replaced without its index, or the other way round.",
    fix: ANOTHER_COPY,
  },
  "format/aeroset.shard-count": {
    what: "A part holds more or fewer shards than the set lists for it.",
    why: "Index and part do not belong together.",
    fix: ANOTHER_COPY,
  },
  "format/aeroset.shard-number": {
    severity: "warning",
    what: "A part gives a shard a number that is neither its global one nor its place in the part.",
    why: "Tensors are found by name, so they are read all the same; other readers may fail.",
    fix: WRITE_AGAIN,
  },
  "format/aeroset.unindexed-tensor": {
    severity: "warning",
    what: "A part's own index lacks a tensor that the set places in it.",
    why: "The bytes are found by the shard's number; readers that need the part's index cannot read it.",
    fix: WRITE_AGAIN,
  },
  "format/aeroset.unlisted-tensor": {
    severity: "warning",
    what: "A part holds a tensor that the global index does not place there.",
    why: "The global index counts, so no reader sees that tensor.",
    fix: "Nothing, or write the set again.",
  },
  "integrity/aeroset.other-tensor": {
    what: "The digest of a tensor in the part is not the one that the global index has.",
    why: "The set contains a part of another version of the model.",
    fix: FETCH_AGAIN,
  },
  "integrity/aeroset.size": {
    what: "A file of the set has another size than the JSON states.",
    why: "The download was cut short, or the file was replaced.",
    fix: FETCH_AGAIN,
  },
  "integrity/aeroset.sha256": {
    what: "A file of the set has another SHA-256 than the JSON states.",
    why: "Bytes were damaged on the way, or the file was replaced.",
    fix: FETCH_AGAIN,
  },
  "integrity/aeroset.no-sha256": {
    severity: "note",
    what: "The JSON states no SHA-256 for a file.",
    why: "The key is optional. What the file carries inside was still checked.",
    fix: "Nothing, or write the set again.",
  },
  "limit/aeroset.json-bytes": {
    what: "The JSON of the set is longer than this reader holds in memory.",
    why: "Real ones have a few kilobytes.",
    fix: "Raise the limit aeroset.jsonBytes if you trust the set.",
  },
  "limit/aeroset.index-bytes": {
    what: "The global index of the set is longer than this reader holds in memory.",
    why: "It is compared with its SHA-256 as a whole before any of it is used. Real ones have some 100 bytes per tensor.",
    fix: "Raise the limit aeroset.indexBytes if you trust the set.",
  },
  "limit/aeroset.parts": {
    what: "The set has more parts than this reader is willing to handle.",
    why: "A crafted list could exhaust memory.",
    fix: "Raise the limit aeroset.parts if you trust the set.",
  },
  "limit/aeroset.shards": {
    what: "The parts of the set list more shards than this reader is willing to handle.",
    why: "A crafted list could exhaust memory.",
    fix: "Raise the limit aeroset.shards if you trust the set.",
  },
  "limit/aeroset.tensor-sharing": {
    what: "Tensors of a part share bytes so often that hashing them all would read many times its length.",
    why: "A crafted index could keep a reader busy for days.",
    fix: "Get the set from a source you trust.",
  },
  "usage/aeroset.no-siblings": {
    what: "The JSON of a set was opened on its own.",
    why: "The tensors are in files beside it, which cannot be reached from here.",
    fix: "Open the set by its path or URL.",
  },
  "usage/aeroset.container": {
    what: "A container of another format was handed to the AEROSET code.",
    why: "This is a mistake in the calling program.",
    fix: "Use the format object that opened the container.",
  },
} as const satisfies ErrorCatalog;

/** Reasons to refuse writing and updating sets. */
export const AEROSET_WRITE_ERRORS = {
  "usage/aeroset.part-shards": {
    what: "The number of shards in a part must be a whole number above zero.",
    why: "Consecutive shards are put into one file until it holds that many.",
    fix: "Give a number such as 4, which is the default.",
  },
  "usage/aeroset.parts": {
    what: "The set would have more parts or shards than readers accept.",
    why: "Readers hold a row for every part and shard, so their number is limited.",
    fix: "Choose a larger shard size, or more shards in a part.",
  },
  "usage/aeroset.base-url": {
    what: "The address under which the set is to be published cannot be used.",
    why: "Readers add the names of parts to it, and everyone who has the set can read it.",
    fix: "Give a plain http or https address of a folder, without user, password, query and fragment.",
  },
  "usage/aeroset.no-part": {
    what: "No part of the set is the one that is to be replaced.",
    why: "Parts are found by their number or path, or by holding exactly the tensors of the file given.",
    fix: "Name the part with --part; tare ls SET shows which file holds a tensor.",
  },
  "usage/aeroset.part-tensors": {
    what: "The file given does not hold exactly the tensors of the part.",
    why: "Other parts are not rewritten, so tensors can neither leave the part nor come into it.",
    fix: "Make a file with exactly these tensors, or write the set again with tare convert.",
  },
  "usage/aeroset.not-local": {
    what: "The set to be changed is not a file on this machine.",
    why: "Its JSON and its index are written beside it.",
    fix: "Fetch the set, update it here, and publish it again.",
  },
  "unsupported/aeroset.unreadable-output": {
    what: "The output cannot be read back.",
    why: "The JSON of a set holds the SHA-256 of every file, whose beginning is known only after its end.",
    fix: "Write to a folder, then send that.",
  },
} as const satisfies ErrorCatalog;
