import type { ErrorCatalog } from "../../base/errors.ts";

/** What writing AERO is refused for. */
export const AERO_WRITE_ERRORS = {
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
    why: "Every run of so many bytes of a shard gets a digest, and a reader holds a page until it has checked it.",
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
