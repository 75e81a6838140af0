import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { decodeHex, encodeUtf8 } from "../../base/text.ts";

export interface Pbkdf2Parameters {
  readonly salt: Bytes;
  readonly iterations: number;
  readonly byteLength: number;
}

/**
 * PBKDF2 with HMAC-SHA-1 (RFC 8018 §5.2). WinZip's encryption derives its keys with it, a thousand times too quickly.
 */
export type Pbkdf2Sha1 = (password: Bytes, parameters: Pbkdf2Parameters) => Promise<Bytes>;

/** RFC 6070, with a result longer than one block of the hash. */
const ANSWER = {
  password: "passwordPASSWORDpassword",
  salt: "saltSALTsaltSALTsaltSALTsaltSALTsalt",
  iterations: 4096,
  key: "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038",
} as const;

/** True if the published answer comes out. */
export async function provesPbkdf2(pbkdf2: Pbkdf2Sha1): Promise<boolean> {
  const expected = decodeHex(ANSWER.key);
  if (expected === undefined) return false;
  const salt = encodeUtf8(ANSWER.salt);
  const parameters = { salt, iterations: ANSWER.iterations, byteLength: expected.byteLength };
  return equalBytes(await pbkdf2(encodeUtf8(ANSWER.password), parameters), expected);
}

/** PBKDF2 of the host's WebCrypto. Rejects if there is none, as on pages that came over plain http. */
export async function loadPbkdf2WebCrypto(): Promise<Pbkdf2Sha1> {
  const { subtle } = globalThis.crypto;
  if (subtle === undefined) throw new Error("no WebCrypto here");
  return async (password, { salt, iterations, byteLength }) => {
    const key = await subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
    const algorithm = { name: "PBKDF2", hash: "SHA-1", salt, iterations };
    return new Uint8Array(await subtle.deriveBits(algorithm, key, 8 * byteLength));
  };
}
