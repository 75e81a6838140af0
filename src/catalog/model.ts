import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of the model view, for any format. */
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
  "usage/key-not-found": {
    what: "No key of the metadata has this name.",
    why: "Keys are matched exactly; near ones are suggested.",
    fix: "List the keys with `tare meta`.",
  },
  "usage/not-a-file": {
    what: "The entry of the archive is a directory, and a file is needed.",
    why: "A directory has no bytes of its own.",
    fix: "Name a file in it; `tare ls TARGET` lists them.",
  },
} as const satisfies ErrorCatalog;

/** Reasons why a model cannot run as a BERT encoder. */
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
    why: "Integers are numbers only with a scale: <name>.scale, one value or one for every row.",
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
