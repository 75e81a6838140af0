import type { Pbkdf2Sha1 } from "./pbkdf2.ts";

/** PBKDF2 of the host's WebCrypto. Rejects where there is none: on pages that came over plain http. */
export async function loadPbkdf2WebCrypto(): Promise<Pbkdf2Sha1> {
  const { subtle } = globalThis.crypto;
  if (subtle === undefined) throw new Error("no WebCrypto here");
  return async (password, { salt, iterations, byteLength }) => {
    const key = await subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
    const algorithm = { name: "PBKDF2", hash: "SHA-1", salt, iterations };
    return new Uint8Array(await subtle.deriveBits(algorithm, key, 8 * byteLength));
  };
}
