import { defineLimits, type LimitOverrides, type Limits, resolveLimits } from "../../base/limits.ts";
import { MAX_HEADER_BYTES } from "./index.ts";

/** Bounds on what this reader holds in memory; overridable per open. */
export const SAFETENSORS_LIMITS = defineLimits({
  headerBytes: {
    default: MAX_HEADER_BYTES,
    unit: "bytes",
    reason: "The header is parsed in memory; the reference implementation refuses exactly above this",
    provenance: "spec",
  },
  keys: {
    default: 1 << 17,
    unit: "entries",
    reason: "Each key of __metadata__ costs some 200 bytes; real files have fewer than a thousand",
    provenance: "tare",
  },
  dimensions: {
    default: 1024,
    unit: "dimensions",
    reason: "The format has no bound; array libraries stop at 64 dimensions, and no model needs more",
    provenance: "tare",
  },
  indexBytes: {
    default: 100_000_000,
    unit: "bytes",
    reason: "The shard index is parsed in memory; it is as long as a header with as many names",
    provenance: "tare",
  },
  shards: {
    default: 100_000,
    unit: "entries",
    reason: "Every shard is opened; the usual file names count shards with five digits",
    provenance: "tare",
  },
});

/** The limits of this format with their values in force. */
export type SafetensorsLimits = Limits<typeof SAFETENSORS_LIMITS>;

/** The limits in force for this format. */
export function safetensorsLimits(overrides: LimitOverrides): SafetensorsLimits {
  return resolveLimits("safetensors", SAFETENSORS_LIMITS, overrides);
}
