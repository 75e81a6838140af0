import type { TareError } from "../../base/errors.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";

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
