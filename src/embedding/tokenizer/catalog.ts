import type { ErrorCatalog } from "../../base/errors.ts";

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
