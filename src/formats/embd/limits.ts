import type { TareError } from "../../base/errors.ts";
import { defineLimits, type LimitOverrides, type Limits, resolveLimits } from "../../base/limits.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";

/** Bounds on what opening an EMBD file holds in memory. */
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

/** The limits of one open: those of the table, except for the caller's overrides. */
export function embdLimits(overrides: LimitOverrides): EmbdLimits {
  return resolveLimits("embd", EMBD_LIMITS, overrides);
}

/**
 * "lenient" opens files that the specification forbids if their meaning is clear; "strict" refuses anything that two
 * readers could interpret differently.
 */
export type Leniency = "strict" | "lenient";

/** How a reader treats faults: it collects the tolerable ones, and refuses the rest. */
export class Tolerance {
  readonly leniency: Leniency;
  readonly warnings: Finding[] = [];

  constructor(leniency: Leniency = "strict") {
    this.leniency = leniency;
  }

  /** For faults that leave the content unambiguous. */
  warn(error: TareError, name?: string): void {
    this.warnings.push({ ...findingFromError(error, "warning"), ...(name === undefined ? {} : { name }) });
  }

  /** For faults that leave it ambiguous: throws, unless the caller asked for leniency. */
  refuse(error: TareError): void {
    if (this.leniency === "strict") throw error;
    this.warn(error);
  }
}
