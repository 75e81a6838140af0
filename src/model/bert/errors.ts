import type { ErrorCatalog } from "../../base/errors.ts";

/** What stands in the way of running a model as a BERT encoder. */
export const BERT_ERRORS = {
  "format/bert.missing-tensors": {
    what: "The model is a BERT encoder, but some of its tensors are not there; the message names all of them.",
    why: "Every layer needs its sixteen tensors. They may have been left out by a conversion, or renamed.",
    fix: "Get the whole model, or convert it again without --include and --exclude.",
  },
  "format/bert.shape": {
    what: "Tensors of the encoder have shapes that do not fit each other.",
    why: "The width is that of the word table, the inner width that of the first layer's intermediate bias.",
    fix: "Look at the shapes with `tare ls`; the tensors may be of different models.",
  },
  "format/bert.scale": {
    what: "An integer tensor has no scale, or one that does not fit its rows.",
    why: "Integers stand for numbers only with a scale: <name>.scale, one value or one for every row.",
    fix: "Convert the model again from the file it was made from.",
  },
  "format/bert.config": {
    what: "The model states a number that its tensors contradict.",
    why: "The dimensions of the tensors are what counts; a head must have a whole number of them.",
    fix: "Pass the right number of heads with --heads, or correct the metadata with `tare stamp`.",
  },
  "format/bert.vocabulary": {
    what: "A vocabulary gives a token an id that cannot be.",
    why: "Ids count the tokens from 0; anything else is damage.",
    fix: "Get vocab.txt or tokenizer.json again from where the model came.",
  },
  "unsupported/bert.names": {
    what: "The model has no tensors by the names of a BERT encoder.",
    why: "Sentence vectors are computed for BERT-shaped encoders only; the names tell which tensor is what.",
    fix: "Use a BERT model: SafeTensors of Hugging Face, a GGUF of llama.cpp, an ONNX export or .weights.",
  },
  "unsupported/bert.architecture": {
    what: "The configuration says that the model is of another kind than BERT.",
    why: "Models such as XLM-RoBERTa have tensors of the same names but compute otherwise: vectors would be wrong.",
    fix: "Use a BERT model.",
  },
  "unsupported/bert.activation": {
    what: "The model uses an activation function that is not computed here.",
    why: "hidden_act in its configuration names it.",
    fix: "Use a model with gelu, its tanh approximation, or relu.",
  },
  "unsupported/bert.pooling": {
    what: "The model makes one vector of its tokens' in a way that is not computed here.",
    why: "The mean and the first token's vector are what most sentence models use.",
    fix: "Use a model with mean or cls pooling.",
  },
  "unsupported/bert.dtype": {
    what: "A tensor of the encoder has a type whose values are not decoded by this version.",
    why: "Its values are needed as numbers.",
    fix: "Convert a copy of the model that is not quantised, or quantised to a type that `tare dequantize` reads.",
  },
  "unsupported/bert.special-tokens": {
    what: "The vocabulary has no [UNK], [CLS] or [SEP].",
    why: "Every sentence begins with [CLS] and ends with [SEP], and what is not in the vocabulary becomes [UNK].",
    fix: "Use the WordPiece vocabulary that belongs to the model.",
  },
  "limit/bert.sidecar-bytes": {
    what: "A file beside the model, such as tokenizer.json, is longer than 64 MiB.",
    why: "It is parsed in memory; no tokenizer is that long.",
    fix: "Check that it is the right file.",
  },
  "usage/bert.heads": {
    what: "The number of attention heads is not known, or does not divide the width.",
    why: "It cannot be seen in the tensors, and a wrong one gives wrong vectors without any error.",
    fix: "Pass --heads N, or put the model's config.json beside it.",
  },
} as const satisfies ErrorCatalog;
