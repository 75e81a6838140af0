import type { TareError } from "../../base/errors.ts";
import { defineLimits, type LimitOverrides, type Limits, resolveLimits } from "../../base/limits.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";

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

/**
 * "lenient" opens what the specification forbids where its sense is plain; "strict" refuses what two readers could take
 * for two different things.
 */
export type Leniency = "strict" | "lenient";

/** What a reader does about faults: collects what can be lived with, refuses the rest. */
export class Tolerance {
  readonly leniency: Leniency;
  readonly warnings: Finding[] = [];

  constructor(leniency: Leniency = "strict") {
    this.leniency = leniency;
  }

  /** For faults that leave no doubt about the content. */
  warn(error: TareError, name?: string): void {
    this.warnings.push({ ...findingFromError(error, "warning"), ...(name === undefined ? {} : { name }) });
  }

  /** For faults that leave some: thrown, unless the caller asked for leniency. */
  refuse(error: TareError): void {
    if (this.leniency === "strict") throw error;
    this.warn(error);
  }
}
