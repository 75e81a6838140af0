import type { ErrorCatalog } from "../../base/errors.ts";

/** Errors of computing embeddings. */
export const ENCODER_ERRORS = {
  "usage/embed.id": {
    what: "A token id is beyond the model's word table.",
    why: "The ids come from a tokenizer whose vocabulary is not the model's.",
    fix: "Use the vocabulary that belongs to the model.",
  },
  "usage/embed.length": {
    what: "A sentence has no token at all, or more than the encoder takes.",
    why: "Each position has a vector of its own in the model, and there are only so many.",
    fix: "Cut the sentence to the encoder's number of tokens; a tokenizer does that.",
  },
  "usage/embed.closed": {
    what: "An embedder was used after it was closed.",
    why: "Closing ends its threads and lets go of the weights.",
    fix: "Close it after the last text.",
  },
  "usage/embed.max-tokens": {
    what: "The number of tokens asked for is not one that the model can take.",
    why: "It has a vector for each position, and needs room for [CLS] and [SEP].",
    fix: "Ask for at least 2 and at most the model's positions.",
  },
  "unsupported/embed.vocabulary": {
    what: "The model has no vocabulary, so text cannot be turned into tokens.",
    why: "Neither the file nor the files beside it hold one: vocabulary, tokenizer.json, vocab.txt.",
    fix: "Put the model's vocab.txt or tokenizer.json beside it, or name one with --vocab.",
  },
  "unsupported/embed.kernel": {
    what: "The kernel asked for does not run here.",
    why: "The host has no WebAssembly, or none with the instructions that the kernel uses.",
    fix: 'Leave the choice to "auto".',
  },
  "limit/embed.memory": {
    what: "The model needs more memory than can be had.",
    why: "Weights are held unpacked in one memory, which is at most 4 GB and must be free.",
    fix: "Use a smaller model, its int8 form, or fewer threads.",
  },
  "format/embed.not-finite": {
    what: "The vector of a text has values that are not finite.",
    why: "The weights hold NaN or infinity, or are so large that sums overflow; they were damaged or made wrong.",
    fix: "Look for NaN with `tare stats`, and get the model again.",
  },
} as const satisfies ErrorCatalog;
