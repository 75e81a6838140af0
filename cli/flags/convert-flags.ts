import { FLOAT_TYPES, QUANT_TYPES } from "../../src/api/move/quantization.ts";
import { FORMATS } from "../../src/formats/registry.ts";
import { DEFAULT_PAGE_BYTES } from "../../src/model/format.ts";

/** The flags of `tare convert`. */
export const CONVERT_FLAGS = {
  to: {
    kind: "text",
    value: "FORMAT",
    suggests: FORMATS.filter(({ write }) => write !== undefined).map(({ id }) => id),
    summary: "output format, where the extension of OUT does not say it",
  },
  dtype: {
    kind: "choice",
    choices: [...FLOAT_TYPES, "i8"],
    letters: "any case",
    summary: "round floating-point tensors to this type; i8 gives matrices a scale a row (EMBD)",
  },
  vocab: {
    kind: "path",
    value: "FILE",
    summary: "the model's tokens: a vocab.txt or tokenizer.json, if there is none beside the model (EMBD)",
  },
  quantize: {
    kind: "choice",
    choices: QUANT_TYPES,
    letters: "any case",
    summary: "make blocks of this type, as tare quantize",
  },
  dequantize: {
    kind: "choice",
    choices: FLOAT_TYPES,
    letters: "any case",
    summary: "make floats of blocks, as tare dequantize",
  },
  keep: { kind: "list", value: "GLOB", summary: "tensors that --quantize and --dequantize leave as they are" },
  include: { kind: "list", value: "GLOB", summary: "only tensors that match; repeatable" },
  exclude: { kind: "list", value: "GLOB", summary: "leave out tensors that match; repeatable" },
  rename: {
    kind: "choice",
    choices: ["none", "hf"],
    summary: "hf: names and values of Hugging Face's checkpoints for those of llama.cpp (none)",
  },
  "max-shard-size": {
    kind: "size",
    value: "SIZE",
    summary: "start another file beyond this much data (AEROSET: another shard of a file)",
  },
  "max-part-shards": {
    kind: "integer",
    value: "N",
    min: 1,
    max: 100_000,
    summary: "shards in one file of an AEROSET (4)",
  },
  "base-url": { kind: "text", value: "URL", summary: "where the AEROSET will be published" },
  align: {
    kind: "integer",
    value: "N",
    min: 1,
    max: 1 << 20,
    summary: "align tensor data to N bytes, where the format lets one choose",
  },
  layout: {
    kind: "choice",
    choices: ["spec", "aprender"],
    summary: "layout of an APR file: the specification's, or the one that aprender reads",
  },
  compress: {
    kind: "choice",
    choices: ["lz4", "none"],
    summary: "compress tensor data, where the format can (APR)",
  },
  metadata: {
    kind: "path",
    value: "FILE",
    summary: "lay a JSON object over the metadata: config.json becomes the architecture, any other sets its keys",
  },
  "model-name": { kind: "text", value: "NAME", summary: "the model's name, under the output's key for it" },
  architecture: { kind: "text", value: "NAME", summary: "the model's architecture, under the output's key for it" },
  set: {
    kind: "list",
    value: "K=V",
    summary: "give key K the value V: JSON, or text as it is; repeatable, typed as in tare stamp",
  },
  "page-hashes": {
    kind: "optional-size",
    value: "SIZE",
    default: DEFAULT_PAGE_BYTES,
    summary: "put a digest of every SIZE bytes (4 MiB) into the file",
  },
  "tensor-hashes": { kind: "switch", summary: "put a digest of every tensor into the file" },
  "control-hash": { kind: "switch", summary: "put a digest of header and tables into the file" },
  uuid: { kind: "text", value: "HEX", summary: "identity of the file, 32 hex digits; random where not given" },
  encrypt: { kind: "switch", summary: "encrypt tensor data with a password (APR)" },
  sign: { kind: "path", value: "KEY", summary: "sign what is written with this private key, as tare sign" },
  verify: { kind: "switch", summary: "read everything back and compare it before the file gets its name" },
  "allow-lossy": { kind: "switch", summary: "go on although something cannot be carried" },
} as const;
