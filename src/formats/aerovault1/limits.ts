import { defineLimits, type Limits } from "../../base/limits.ts";

/** The highest declared values that opening a vault of version 1 accepts. */
export const AEROVAULT1_LIMITS = defineLimits({
  directoryBytes: {
    default: 64 << 20,
    unit: "bytes",
    reason: "The ZIP's directory is parsed in memory; a million rows fit",
    provenance: "tare",
  },
  keptBytes: {
    default: 64 << 20,
    unit: "bytes",
    reason:
      "A deflated file up to this is held in memory once it is read; longer ones are inflated again from the start",
    provenance: "tare",
  },
});

export type Aerovault1Limits = Limits<typeof AEROVAULT1_LIMITS>;
