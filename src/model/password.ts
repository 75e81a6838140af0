import type { Bytes } from "../base/bytes.ts";
import { UsageError } from "../base/errors.ts";
import { encodeUtf8, isWellFormed } from "../base/text.ts";
import { ofCaller } from "../bytes/abort.ts";
import type { PasswordSource } from "./format.ts";

export type Secret = string | Uint8Array;

/** Text is UTF-8. The function is called once for each encrypted file, with its label, only when it is needed. */
export type Password = Secret | ((label: string) => Secret | undefined | Promise<Secret | undefined>);

/**
 * A password as formats ask for it: each answer is a copy, which the format wipes. Throws `usage/password.source` for
 * what is no password, here or when the function gives it.
 */
export function passwordSource(
  password: Password | undefined,
  signal?: AbortSignal | undefined,
): PasswordSource | undefined {
  if (password === undefined) return undefined;
  if (typeof password === "function") {
    // It may wait for its user for ever.
    return async (label) => secretBytes(await ofCaller("password", signal, () => password(label)), label);
  }
  const bytes = secretBytes(password, "password");
  return async () => bytes?.slice();
}

/** Callers without types may give anything. */
function secretBytes(secret: Secret | undefined, source: string): Bytes | undefined {
  if (secret === undefined) return undefined;
  if (typeof secret === "string" && !isWellFormed(secret)) {
    const message = "Cannot use the password: it must be UTF-8, and has half of a surrogate pair";
    throw new UsageError("usage/password.source", message, { source });
  }
  if (typeof secret === "string") return encodeUtf8(secret);
  if (secret instanceof Uint8Array) return new Uint8Array(secret);
  const found = secret === null ? "null" : typeof secret;
  const message = `Cannot use the password: it must be text, bytes or a function that gives them, found ${found}`;
  throw new UsageError("usage/password.source", message, { source });
}
