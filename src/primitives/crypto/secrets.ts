import type { Bytes } from "../../base/bytes.ts";

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
