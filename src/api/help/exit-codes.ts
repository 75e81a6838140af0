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

/** Codes whose exit code differs from that of their kind. */
const BY_CODE: Readonly<Record<string, ExitCode>> = {
  "source/not-found": EXIT.notFound,
  "source/no-model": EXIT.notFound,
  "source/no-texts": EXIT.notFound,
  "usage/tensor-not-found": EXIT.notFound,
  "usage/entry-not-found": EXIT.notFound,
  "usage/key-not-found": EXIT.notFound,
  "source/pull.locked": EXIT.locked,
  "source/stamp.locked": EXIT.locked,
  "source/vault.locked": EXIT.locked,
  "usage/password.missing": EXIT.password,
  "usage/password.unused": EXIT.password,
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

/** The exit code of a stable error code; undefined if its kind is unknown. */
export function exitCodeOfCode(code: string): ExitCode | undefined {
  if (Object.hasOwn(BY_CODE, code)) return BY_CODE[code];
  const kind = code.split("/", 1)[0] ?? "";
  return Object.hasOwn(BY_KIND, kind) ? BY_KIND[kind] : undefined;
}
