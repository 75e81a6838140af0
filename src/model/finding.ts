import type { ErrorJson, Location, TareError } from "../base/errors.ts";

export type Severity = "error" | "warning" | "note";

/** One result of verify. */
export interface Finding {
  readonly severity: Severity;
  /** Same codes as errors: `integrity/…`, `format/…`; `tare explain` knows them all. */
  readonly code: string;
  readonly message: string;
  readonly at: Location;
  /** The tensor, entry or part concerned. */
  readonly name?: string;
  readonly hint?: string;
}

export function findingFromError(error: TareError, severity: Severity = "error"): Finding {
  const { code, message, at, hint }: ErrorJson = error.toJSON();
  return { severity, code, message, at, ...(hint === undefined ? {} : { hint }) };
}
