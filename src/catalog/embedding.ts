import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of tokenizers. */
export const TOKENIZER_ERRORS = {
  "format/tokenizer.special": {
    what: "The vocabulary says that [CLS], [SEP] or [UNK] has an id that no token has.",
    why: "No sentence can be made without these three.",
    fix: "Convert the model again with its tokenizer.json or vocab.txt beside it.",
  },
  "limit/tokenizer.vocabulary": {
    what: "The tokens of a vocabulary are longer than any real vocabulary, taken together.",
    why: "The table that text is looked up in grows with them.",
    fix: "Check where the file comes from; the vocabularies of BERT models have a hundredth of that.",
  },
} as const satisfies ErrorCatalog;

/** Errors of computing embeddings. */
export const ENCODER_ERRORS = {
  "usage/embed.id": {
    what: "A token id is beyond the model's word table.",
    why: "The ids come from a tokenizer whose vocabulary is not the model's.",
    fix: "Use the vocabulary that belongs to the model.",
  },
  "usage/embed.length": {
    what: "A sentence has no token at all, or more than the encoder takes.",
    why: "Each position has its own vector in the model, and their number is limited.",
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
