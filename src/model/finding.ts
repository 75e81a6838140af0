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

/** A report on something that can be doubtful, such as a vault that this machine has seen in a later state. */
export interface Warned {
  readonly warnings?: readonly Finding[] | undefined;
}

export function findingFromError(error: TareError, severity: Severity = "error"): Finding {
  const { code, message, at, hint }: ErrorJson = error.toJSON();
  return { severity, code, message, at, ...(hint === undefined ? {} : { hint }) };
}

/** Something that the target cannot carry. */
export interface Loss {
  /** Tensor name or metadata key. */
  readonly name: string;
  readonly reason: string;
  /** Location of bytes that belong to nothing: they have no name that the user could exclude. */
  readonly at?: Location;
}
