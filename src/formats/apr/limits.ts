import { defineLimits, type LimitOverrides, type Limits, resolveLimits } from "../../base/limits.ts";

/** How much this reader holds; callers can override it per open. */
export const APR_LIMITS = defineLimits({
  metadataBytes: {
    default: 256 << 20,
    unit: "bytes",
    reason: "The metadata is parsed in memory; a vocabulary of a million words takes a tenth of this",
    provenance: "tare",
  },
  metadataValues: {
    default: 4_000_000,
    unit: "entries",
    reason: "Two bytes of JSON can become sixty bytes of memory; the largest vocabularies have a million values",
    provenance: "tare",
  },
  indexBytes: {
    default: 256 << 20,
    unit: "bytes",
    reason: "The tensor index is parsed in memory; a million tensors with long names take less",
    provenance: "tare",
  },
  dimensions: {
    default: 8,
    unit: "dimensions",
    reason: "The specification allows 1 to 8 dimensions",
    provenance: "spec",
  },
  leastDimensions: {
    default: 1,
    unit: "dimensions",
    reason: "The specification allows 1 to 8 dimensions; 0 lets tensors without dimensions, of one element, pass",
    provenance: "spec",
  },
  manifestBytes: {
    default: 100_000_000,
    unit: "bytes",
    reason: "The manifest of a set is parsed in memory; it is as long as an index with as many names",
    provenance: "tare",
  },
  shards: {
    default: 10_000,
    unit: "entries",
    reason: "Every shard is opened; the usual file names count shards with five digits",
    provenance: "tare",
  },
});

/** The limits in force. */
export type AprLimits = Limits<typeof APR_LIMITS>;

/** The limits of one open: the table's values, except those that the caller set. */
export function aprLimits(overrides: LimitOverrides): AprLimits {
  return resolveLimits("apr", APR_LIMITS, overrides);
}

/** Limits that only the layouts of other programs need; they belong to the format's table. */
export const WILD_LIMITS = defineLimits({
  unpackedBytes: {
    default: 1 << 30,
    unit: "bytes",
    reason: "A file that is compressed as a whole is unpacked into memory; APRN itself allows 1 GiB",
    provenance: "tare",
  },
});

/** The limits in force for these layouts. */
export type WildLimits = Limits<typeof APR_LIMITS & typeof WILD_LIMITS>;

/** The limits of one open: the values of both tables, except those that the caller set. */
export function wildLimits(overrides: LimitOverrides): WildLimits {
  return resolveLimits("apr", { ...APR_LIMITS, ...WILD_LIMITS }, overrides);
}
