import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of fixed-layout records that no format gave a name of its own. */
export const STRUCT_ERRORS = {
  "format/struct": {
    what: "A fixed-length record is cut short, or a field that has only one legal value holds another.",
    why: "The record's table is exact: reading on would give wrong offsets for everything behind it.",
    fix: "Get another copy of the file.",
  },
  "usage/struct": {
    what: "A value does not fit the field it should be written to, or a record's table is inconsistent.",
    why: "Cutting the value down would write a file that says something else.",
    fix: "This is a mistake in the program, not in the file: report it.",
  },
} as const satisfies ErrorCatalog;
