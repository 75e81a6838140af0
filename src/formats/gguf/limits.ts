import { defineLimits, type Limits } from "../../base/limits.ts";

/** Bounds on what a GGUF file may declare when it is opened. */
export const GGUF_LIMITS = defineLimits({
  headerBytes: {
    default: 512 << 20,
    unit: "bytes",
    reason:
      "Metadata and tensor infos stay in memory; real ones are below 30 MB, even with 400 000 strings of vocabulary",
    provenance: "tare",
  },
  keys: {
    default: 1 << 17,
    unit: "entries",
    reason: "Each key costs some 600 bytes; real files have fewer than a hundred",
    provenance: "tare",
  },
  tensors: {
    default: 1 << 20,
    unit: "entries",
    reason: "Each tensor costs an object; the largest mixtures of experts have some ten thousand",
    provenance: "tare",
  },
  keyBytes: {
    default: 65535,
    unit: "bytes",
    reason: "The specification allows keys of 2^16 - 1 bytes",
    provenance: "spec",
  },
  nameBytes: {
    default: 65535,
    unit: "bytes",
    reason: "The specification says 64, llama.cpp 63, gguf-py nothing: longer names are read with a warning",
    provenance: "tare",
  },
  stringBytes: {
    default: 1 << 30,
    unit: "bytes",
    reason: "What llama.cpp accepts; headerBytes binds first unless it is raised",
    provenance: "tare",
  },
  dimensions: {
    default: 4,
    unit: "dimensions",
    reason: "GGML_MAX_DIMS: the specification and llama.cpp allow four",
    provenance: "spec",
  },
  arrayDepth: {
    default: 8,
    unit: "levels",
    reason: "Arrays of arrays are legal and rare; llama.cpp refuses any, gguf-py writes them",
    provenance: "tare",
  },
  alignment: {
    default: 1 << 20,
    unit: "bytes",
    reason: "Real files use 32, sometimes 64 to 4096; padding grows with it",
    provenance: "tare",
  },
  parts: {
    default: 4096,
    unit: "entries",
    reason: "Every part is a file to open; the largest published sets have fewer than a hundred",
    provenance: "tare",
  },
});

export type GgufLimits = Limits<typeof GGUF_LIMITS>;
