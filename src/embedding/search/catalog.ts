import type { ErrorCatalog } from "../../base/errors.ts";

/** Errors of searching by vectors. */
export const SEARCH_ERRORS = {
  "usage/vector.length": {
    what: "Two vectors of different lengths were compared.",
    why: "They come from different models; a similarity between them would mean nothing.",
    fix: "Embed both texts with one model.",
  },
  "unsupported/index.foreign": {
    what: "The file given as an index is something else.",
    why: "An index is rewritten when its corpus changes, and no other file may be lost that way.",
    fix: "Give --index the name of a new file, or of one that a search made before.",
  },
  "unsupported/index.version": {
    what: "The index has a layout of another version of tare.",
    why: "Its vectors may mean something else.",
    fix: "Delete it, and it will be made again; or update tare.",
  },
  "format/index.damaged": {
    what: "The file is an index, but its header or its length is not that of one.",
    why: "It was cut short or changed after it was made.",
    fix: "Delete it, and it will be made again.",
  },
  "format/index.shape": {
    what: "The tables of an index do not belong together.",
    why: "There must be one digest and one vector for each text, and all vectors must have one length.",
    fix: "Delete it, and it will be made again.",
  },
  "integrity/index.digest": {
    what: "The vectors of an index are not those that were written.",
    why: "The file was damaged or edited after it was made.",
    fix: "Delete it, and it will be made again.",
  },
} as const satisfies ErrorCatalog;
