import type { Bytes } from "../../base/bytes.ts";
import { isUtf8 } from "../../base/text.ts";

/**
 * Overwrites keys and passwords with zeros as soon as they are no longer needed. Copies that the garbage collector or
 * the host made are out of reach. So this only shortens how long a secret can be found in memory.
 */
export function wipe(...secrets: readonly (Bytes | undefined)[]): void {
  for (const secret of secrets) secret?.fill(0);
}

/**
 * Why nothing new should get this password; undefined if it is fine. A password that is not UTF-8 cannot be given to
 * programs that read passwords as text. An invisible mark at the start comes from an editor.
 */
export function findPasswordFault(password: Bytes): string | undefined {
  if (!isUtf8(password)) return "it must be UTF-8";
  const hasMark = password[0] === 0xef && password[1] === 0xbb && password[2] === 0xbf;
  return hasMark ? "it begins with a byte order mark, which cannot be typed" : undefined;
}

/** The source of keys, salts and nonces. Tests pass their own. */
export type RandomBytes = (byteLength: number) => Bytes;

/** The host's generator for secrets. It exists in Node, in pages and in workers, also over plain http. */
export const secureRandom: RandomBytes = (byteLength) => globalThis.crypto.getRandomValues(new Uint8Array(byteLength));
