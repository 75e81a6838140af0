import { defineLimits, type Limits } from "../../base/limits.ts";

/** The highest declared values that opening a set accepts; its .aero files follow the limits of AERO. */
export const AEROSET_LIMITS = defineLimits({
  jsonBytes: {
    default: 64 << 20,
    unit: "bytes",
    reason: "The JSON is parsed in memory; a part takes some 200 bytes of it",
    provenance: "tare",
  },
  indexBytes: {
    default: 256 << 20,
    unit: "bytes",
    reason:
      "An index that the JSON pins is hashed whole, in memory, before it is used; a tensor takes some 100 bytes of it",
    provenance: "tare",
  },
  parts: {
    default: 100_000,
    unit: "entries",
    reason: "With parts of 8 GiB, the reference's default, this is 800 TiB",
    provenance: "tare",
  },
  shards: {
    default: 1_000_000,
    unit: "entries",
    reason: "MAX_ENTRY_COUNT of AERO: a file holds no more chunks than this, so neither should one model",
    provenance: "tare",
  },
});

/** The values in force. */
export type AerosetLimits = Limits<typeof AEROSET_LIMITS>;
