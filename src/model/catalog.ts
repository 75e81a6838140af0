import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of the model view, whatever the format. */
export const MODEL_ERRORS = {
  "format/dtype.partial-block": {
    what: "A row of a block-quantised tensor is not a whole number of blocks.",
    why: "ggml groups the elements of the innermost dimension; a row that ends inside a block has no meaning.",
    fix: "Get another copy of the file, or the tool that wrote it is wrong.",
  },
  "format/dtype.partial-byte": {
    what: "The elements of a 4- or 6-bit type do not fill whole bytes.",
    why: "Sub-byte types are packed, so their total must be a multiple of eight bits.",
    fix: "Get another copy of the file, or the tool that wrote it is wrong.",
  },
  "unsupported/dtype.float32": {
    what: "The tensor's type has no reading as plain numbers in this version.",
    why: "Block-quantised and packed types need a decoder of their own.",
    fix: "Take the stored bytes with `tare cat`, or convert a copy that is not quantised.",
  },
  "unsupported/rename": {
    what: "The model cannot be given the names of Hugging Face's checkpoints.",
    why: "llama.cpp's converter changes the values of some architectures. Under a checkpoint's names they would compute something else, so a model is renamed only where everything that was done to it is known and can be undone.",
    fix: "Leave --rename hf out, exclude the tensors that the message names, or get the checkpoint itself.",
  },
  "usage/rows": {
    what: "The rows asked for do not exist, or the tensor cannot be cut there.",
    why: "Rows are counted along the outermost dimension, from 0; the end is exclusive.",
    fix: "Look at the shape with `tare ls` and ask for rows inside it.",
  },
  "usage/transpose": {
    what: "A tensor that is no matrix was to be transposed.",
    why: "Only matrices whose elements are whole bytes have rows and columns that can be exchanged.",
    fix: "Transpose matrices only; `tare ls` shows the shapes.",
  },
  "usage/tensor-not-found": {
    what: "The model has no tensor of that name.",
    why: "Names are compared exactly, upper and lower case included.",
    fix: "List the names with `tare ls TARGET`, or with a pattern: `tare ls TARGET '*q_proj*'`.",
  },
  "usage/entry-not-found": {
    what: "The archive has no entry of that path.",
    why: "Paths are compared exactly, upper and lower case included.",
    fix: "List the entries with `tare ls TARGET`.",
  },
  "usage/not-a-file": {
    what: "The entry of the archive is a directory, and a file is needed.",
    why: "A directory has no bytes of its own.",
    fix: "Name a file in it; `tare ls TARGET` lists them.",
  },
} as const satisfies ErrorCatalog;
