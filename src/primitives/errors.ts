import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of the engine: the table of hashes, checksums and later primitives. */
export const PRIMITIVE_ERRORS = {
  "unsupported/engine.primitive": {
    what: "No implementation of an algorithm works on this machine.",
    why: "Each one is tried with an input whose result is known; none loaded and gave that result.",
    fix: "Run `tare doctor`, and use --engine portable if another engine was chosen.",
  },
  "unsupported/engine.native": {
    what: "The native engine was asked for, but a part of it is missing.",
    why: "Native parts are optional packages with binaries for common platforms; this one has none, or it was left out.",
    fix: "Use --engine auto, which takes what is there, or reinstall with optional dependencies.",
  },
  "usage/engine.range": {
    what: "A range to hash has an offset or a length that is not a whole number from 0 up.",
    why: "Such a range names no bytes.",
    fix: "Pass the offset and byteLength of an extent inside the source.",
  },
} as const satisfies ErrorCatalog;
