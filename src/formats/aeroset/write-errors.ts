import type { ErrorCatalog } from "../../base/errors.ts";

/** What writing and updating sets is refused for. */
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
    fix: "Make a file with exactly these tensors, or write the set anew with tare convert.",
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
