import type { ErrorCatalog } from "./errors.ts";

/** Errors that belong to no single format: arithmetic, limits, and what callers get wrong. */
export const BASE_ERRORS = {
  "limit/integer": {
    what: "A 64-bit field holds a number above 2^53 - 1.",
    why: "No real file is that long; such a value is damage or an attack on readers that cut it down.",
    fix: "Get another copy of the file.",
  },
  "format/overflow": {
    what: "Adding or multiplying numbers from the file exceeds 2^53 - 1.",
    why: "Readers that let this wrap end up with a small size for a huge tensor.",
    fix: "Get another copy of the file.",
  },
  "limit/budget": {
    what: "An operation would hold more bytes in memory than it is allowed.",
    why: "Memory is bounded whatever the file says.",
    fix: "Raise --memory, or ask for fewer rows or tensors.",
  },
} as const satisfies ErrorCatalog;
