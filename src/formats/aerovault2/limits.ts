import { defineLimits, type Limits } from "../../base/limits.ts";

/** The highest declared values that opening a vault of version 2 accepts. */
export const AEROVAULT2_LIMITS = defineLimits({
  manifestBytes: {
    default: 64 << 20,
    unit: "bytes",
    reason: "The manifest is decrypted and parsed in memory; the reference reads no longer one",
    provenance: "spec",
  },
  unevenChunks: {
    default: 1 << 20,
    unit: "entries",
    reason: "Chunks of one length are found by counting; a file that has others needs a table of them in memory",
    provenance: "tare",
  },
});

export type Aerovault2Limits = Limits<typeof AEROVAULT2_LIMITS>;
