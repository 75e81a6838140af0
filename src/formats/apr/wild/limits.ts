import { defineLimits, type LimitOverrides, type Limits, resolveLimits } from "../../../base/limits.ts";
import { APR_LIMITS } from "../limits.ts";

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

/** The limits of one open: the tables', but for what the caller set. */
export function wildLimits(overrides: LimitOverrides): WildLimits {
  return resolveLimits("apr", { ...APR_LIMITS, ...WILD_LIMITS }, overrides);
}
