import { EXIT, type ExitCode, exitCodeOfCode } from "../src/api/help/exit-codes.ts";
import { isTareError, namedSystemError } from "../src/base/errors.ts";

export { EXIT, type ExitCode, exitCodeOfCode };

/** Signals that ask the process to end, with the exit codes that shells use for them: 128 plus the signal's number. */
export const SIGNAL_EXIT = { SIGHUP: 129, SIGINT: EXIT.interrupted, SIGTERM: 143 } as const;

/** The exit code of any thrown value: one that is neither ours nor the system's is a bug, and says so. */
export function exitCodeOf(error: unknown): ExitCode {
  if (isInterruption(error)) return EXIT.interrupted;
  const known = isTareError(error) ? error : namedSystemError(error);
  return (known === undefined ? undefined : exitCodeOfCode(known.code)) ?? EXIT.internal;
}

/** True for the error of an aborted signal. */
export function isInterruption(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}

/** Most serious first: bytes that break the format, then damage, then doubtful signatures, then what is not handled. */
const GRAVITY: readonly ExitCode[] = [
  EXIT.internal,
  EXIT.format,
  EXIT.integrity,
  EXIT.signature,
  EXIT.password,
  EXIT.notFound,
  EXIT.source,
  EXIT.limit,
  EXIT.unsupported,
  EXIT.lossy,
  EXIT.locked,
  EXIT.usage,
  EXIT.findings,
];

/** How a command ends that looks at several targets: with the code of the most serious one. */
export function gravest(codes: readonly ExitCode[]): ExitCode {
  return GRAVITY.find((code) => codes.includes(code)) ?? EXIT.success;
}

/** How `verify` ends: with the class of its most serious error. */
export function exitCodeOfFindings(
  findings: readonly { readonly severity: string; readonly code: string }[],
): ExitCode {
  const codes = new Set<ExitCode>();
  for (const finding of findings) {
    if (finding.severity === "error") codes.add(exitCodeOfCode(finding.code) ?? EXIT.internal);
  }
  return gravest([...codes]);
}
