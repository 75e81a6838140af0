import type { ErrorCatalog } from "../base/errors.ts";

/** Errors and findings of the verbs, whatever the format. */
export const OPERATION_ERRORS = {
  "integrity/digest-mismatch": {
    what: "A tensor's bytes do not have the digest that the list gives for it.",
    why: "The file was damaged or changed after the list was made.",
    fix: "Get the file again; `tare diff` against another copy shows what differs.",
  },
  "integrity/digest-missing": {
    what: "The list of digests names a tensor that the file does not have.",
    why: "The list belongs to another file, or the tensor was removed.",
    fix: "Compare the names with `tare ls`.",
  },
  "integrity/digest-unlisted": {
    what: "The list of digests has no entry for this tensor, so it could not be checked.",
    why: "The list belongs to another file, or the tensor was added later.",
    fix: "Make a new list with `tare verify TARGET --digest sha256 --json`.",
  },
  "unsupported/lossy": {
    what: "The target format cannot carry something that the source has.",
    why: "A conversion never drops or changes anything silently.",
    fix: "Exclude what is named, choose another format, or accept the loss with --allow-lossy.",
  },
  "unsupported/write": {
    what: "This version reads the format but does not write it.",
    why: "Legacy formats are kept readable so that nothing is stranded in them.",
    fix: "Choose another output format.",
  },
  "unsupported/npy.dtype": {
    what: "NumPy's .npy format has no such element type.",
    why: "bfloat16, fp8 and block-quantised types are not part of NumPy.",
    fix: "Add `--dtype f32`, or take the stored bytes with `--as raw`.",
  },
} as const satisfies ErrorCatalog;
