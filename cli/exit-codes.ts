import { isTareError, namedSystemError } from "../src/base/errors.ts";

/** Exit codes that scripts rely on; docs/cli.md lists them. Later commands add theirs here. */
export const EXIT = {
  success: 0,
  internal: 1,
  usage: 2,
  findings: 3,
  format: 4,
  integrity: 5,
  unsupported: 6,
  limit: 7,
  source: 8,
  notFound: 9,
  locked: 10,
  password: 11,
  signature: 12,
  lossy: 13,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Codes whose exit is not that of their kind. */
const BY_CODE: Readonly<Record<string, ExitCode>> = {
  "source/not-found": EXIT.notFound,
  "source/no-model": EXIT.notFound,
  "usage/tensor-not-found": EXIT.notFound,
  "usage/entry-not-found": EXIT.notFound,
  "source/pull.locked": EXIT.locked,
  "source/stamp.locked": EXIT.locked,
  "source/vault.locked": EXIT.locked,
  "usage/password.missing": EXIT.password,
  "usage/password.wrong": EXIT.password,
  "usage/vault.unencrypted": EXIT.password,
  "usage/vault.was-encrypted": EXIT.password,
  "integrity/signature.invalid": EXIT.signature,
  "integrity/signature.missing": EXIT.signature,
  "integrity/signature.untrusted": EXIT.signature,
  "unsupported/lossy": EXIT.lossy,
  "usage/interrupted": EXIT.interrupted,
};

const BY_KIND: Readonly<Record<string, ExitCode>> = {
  format: EXIT.format,
  integrity: EXIT.integrity,
  unsupported: EXIT.unsupported,
  limit: EXIT.limit,
  source: EXIT.source,
  usage: EXIT.usage,
};

/** The exit code of a stable error code; undefined where nothing is known about its kind. */
export function exitCodeOfCode(code: string): ExitCode | undefined {
  if (Object.hasOwn(BY_CODE, code)) return BY_CODE[code];
  const kind = code.split("/", 1)[0] ?? "";
  return Object.hasOwn(BY_KIND, kind) ? BY_KIND[kind] : undefined;
}

/** The exit code of anything that was thrown: what is neither ours nor the system's is a bug, and says so. */
export function exitCodeOf(error: unknown): ExitCode {
  if (isInterruption(error)) return EXIT.interrupted;
  const known = isTareError(error) ? error : namedSystemError(error);
  return (known === undefined ? undefined : exitCodeOfCode(known.code)) ?? EXIT.internal;
}

/** True for what an aborted signal throws. */
export function isInterruption(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}

/** Gravest first: bytes that break the format, then damage, then doubtful signatures, then what is not handled. */
const GRAVITY: readonly ExitCode[] = [
  EXIT.format,
  EXIT.integrity,
  EXIT.signature,
  EXIT.password,
  EXIT.notFound,
  EXIT.source,
  EXIT.limit,
  EXIT.unsupported,
  EXIT.usage,
];

/** How `verify` ends: with the class of its gravest error. */
export function exitCodeOfFindings(
  findings: readonly { readonly severity: string; readonly code: string }[],
): ExitCode {
  const codes = new Set<ExitCode>();
  for (const finding of findings) {
    if (finding.severity === "error") codes.add(exitCodeOfCode(finding.code) ?? EXIT.internal);
  }
  return GRAVITY.find((code) => codes.has(code)) ?? (codes.size > 0 ? EXIT.internal : EXIT.success);
}
