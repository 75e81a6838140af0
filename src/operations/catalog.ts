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
  "integrity/not-checked": {
    what: "Something was left unchecked, as --remote asks.",
    why: "Checking it would download the whole file.",
    fix: "Run `tare verify TARGET --full`, or download the file and verify it there.",
  },
  "integrity/written": {
    what: "A file that was just written does not read back as what was to be written.",
    why: "The disk, the memory or the network changed bytes on the way. A file is dropped before it gets its name; an upload can only be checked when it is complete, and stays.",
    fix: "Try again, on another disk if it happens twice.",
  },
  "limit/loader": {
    what: "The tensor is larger than what the loader may hold in memory.",
    why: "A loader keeps the bytes of tensors within a budget, 64 MiB unless another was given.",
    fix: "Read the tensor in parts with streamTensor or tensorSlice, or raise maxBytes.",
  },
  "limit/prefetch": {
    what: "The tensors to be fetched ahead are larger together than the allowance.",
    why: "Their bytes are kept in memory until the caller lets go of them.",
    fix: "Fetch fewer tensors at a time, raise maxBytes, or go through the model with streamTensors.",
  },
  "usage/verify-output": {
    what: "What is written was to be verified, but the destination cannot be read back.",
    why: "Bytes in a pipe are gone; saying that they were checked would be untrue.",
    fix: "Name a file, or leave --verify out.",
  },
  "unsupported/lossy": {
    what: "The target format cannot carry something that the source has, or the source holds something that nothing here understands.",
    why: "A conversion never drops or changes anything silently: not a chunk of an unknown type, not bytes that nothing in the file refers to.",
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
