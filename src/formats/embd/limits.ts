import { defineLimits, type LimitOverrides, type Limits, resolveLimits } from "../../base/limits.ts";

/** What opening an EMBD file is willing to hold. */
export const EMBD_LIMITS = defineLimits({
  metadataBytes: {
    default: 64 << 20,
    unit: "bytes",
    reason: "The metadata is kept in memory; real ones have a few hundred bytes, what conversions carry some megabytes",
    provenance: "tare",
  },
  vocabularyBytes: {
    default: 256 << 20,
    unit: "bytes",
    reason: "The vocabulary is kept in memory; one of 30 522 tokens takes 262 062 bytes",
    provenance: "tare",
  },
  tokens: {
    default: 1 << 24,
    unit: "entries",
    reason:
      "Each token costs four bytes of memory beside its text; the largest vocabularies have a quarter of a million",
    provenance: "tare",
  },
  tensors: {
    default: 1 << 20,
    unit: "entries",
    reason: "Each tensor costs an object; the models of this format have one or two hundred",
    provenance: "tare",
  },
  streamTextBytes: {
    default: 1 << 20,
    unit: "bytes",
    reason: "The program that reads the stream layout refuses names and tokens beyond 1 MiB",
    provenance: "spec",
  },
});

export type EmbdLimits = Limits<typeof EMBD_LIMITS>;

/** The limits of one open: the table's, but for what the caller set. */
export function embdLimits(overrides: LimitOverrides): EmbdLimits {
  return resolveLimits("embd", EMBD_LIMITS, overrides);
}
