import { defineLimits, type Limits } from "../../base/limits.ts";

/** The highest declared values that opening an AERO file accepts. */
export const AERO_LIMITS = defineLimits({
  chunks: {
    default: 1_000_000,
    unit: "entries",
    reason: "MAX_ENTRY_COUNT of the specification",
    provenance: "spec",
  },
  stringTableBytes: {
    default: 2 ** 29,
    unit: "bytes",
    reason: "MAX_STRING_TABLE of the specification: 512 MB, taken as 2^29 as the reference does",
    provenance: "spec",
  },
  metadataBytes: {
    default: 2 ** 31,
    unit: "bytes",
    reason: "MAX_METADATA_ULEN of the specification: 2 GB, taken as 2^31 as the reference does",
    provenance: "spec",
  },
  tensors: {
    default: 1 << 22,
    unit: "entries",
    reason: "Each tensor costs an object of some 300 bytes; the largest mixtures of experts have some ten thousand",
    provenance: "tare",
  },
  nameBytes: {
    default: 1 << 20,
    unit: "bytes",
    reason: "The specification has no bound, the C++ reader stops at 4096: longer names are read with a warning",
    provenance: "tare",
  },
  dimensions: {
    default: 1024,
    unit: "dimensions",
    reason: "The specification has no bound, the C++ reader stops at 32: higher ranks are read with a warning",
    provenance: "tare",
  },
  verifyBytes: {
    default: 256 << 20,
    unit: "bytes",
    reason: "A page, and a remote tensor with only a hash of its own, is held whole until it has been checked",
    provenance: "tare",
  },
});

/** The values in force. */
export type AeroLimits = Limits<typeof AERO_LIMITS>;
