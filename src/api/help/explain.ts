import { UsageError } from "../../base/errors.ts";
import { nearest } from "../../base/nearest.ts";
import { allErrors } from "../../catalog/index.ts";
import { nearNames } from "../../model/model.ts";
import { EXIT, exitCodeOfCode } from "./exit-codes.ts";

/** What `tare explain CODE --json` prints. */
export interface ExplainResult {
  readonly code: string;
  readonly what: string;
  readonly why: string;
  /** What to do. */
  readonly fix: string;
  /** Present if the code only ever occurs in findings that are no errors. */
  readonly severity?: "warning" | "note";
  /** How the command line ends; null for what is no error. */
  readonly exitCode: number | null;
}

/** What `tare explain --json` prints. */
export interface ExplainAllResult {
  readonly codes: readonly Omit<ExplainResult, "exitCode">[];
}

/** What an error or a finding means, and what to do about it. Without a code, all of them. */
export async function explain(code?: string): Promise<ExplainResult | ExplainAllResult> {
  const errors = allErrors();
  if (code === undefined) return { codes: [...errors].map(([key, entry]) => ({ code: key, ...entry })) };
  const key = String(code).replace(/^\[|\]$/g, "");
  const entry = errors.get(key);
  if (entry === undefined) throw unknownCode(key, [...errors.keys()]);
  const exitCode = entry.severity === undefined ? (exitCodeOfCode(key) ?? EXIT.internal) : null;
  return { code: key, ...entry, exitCode };
}

function unknownCode(code: string, known: readonly string[]): UsageError {
  const close = nearest(code, known);
  const near = [...new Set([...(close === undefined ? [] : [close]), ...nearNames(code, known)])];
  const hint = near.length === 0 ? "List all codes with: tare explain" : `Did you mean ${near.join(", ")}?`;
  const message = `Cannot explain "${code}": there is no such code`;
  return new UsageError("usage/unknown-code", message, { source: "options" }, { hint });
}
