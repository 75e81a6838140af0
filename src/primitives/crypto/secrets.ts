import type { Bytes } from "../../base/bytes.ts";
import { isUtf8 } from "../../base/text.ts";

/**
 * Overwrites keys and passwords with zeros, as soon as they are of no more use. Copies that the garbage collector or the
 * host made are out of reach: this shortens how long a secret can be found in memory, and promises no more.
 */
export function wipe(...secrets: readonly (Bytes | undefined)[]): void {
  for (const secret of secrets) secret?.fill(0);
}

/** Gives `secret` to `use` and wipes it afterwards, whatever happens. */
export async function withSecret<T>(secret: Bytes, use: (secret: Bytes) => T | Promise<T>): Promise<T> {
  try {
    return await use(secret);
  } finally {
    wipe(secret);
  }
}

/**
 * Why a password should not be given to anything new; undefined where it may be. Programs that read passwords as text could
 * never be given one that is no UTF-8, and an invisible mark in front is what an editor put there.
 */
export function findPasswordFault(password: Bytes): string | undefined {
  if (!isUtf8(password)) return "it must be UTF-8";
  const hasMark = password[0] === 0xef && password[1] === 0xbb && password[2] === 0xbf;
  return hasMark ? "it begins with a byte order mark, which nobody could type" : undefined;
}

/** Where keys, salts and nonces come from; tests give their own. */
export type RandomBytes = (byteLength: number) => Bytes;

/** The host's generator for secrets: there in Node, in pages and in workers, on plain http too. */
export const secureRandom: RandomBytes = (byteLength) => globalThis.crypto.getRandomValues(new Uint8Array(byteLength));
