import type { Bytes } from "../../base/bytes.ts";

/** Where keys, salts and nonces come from; tests give their own. */
export type RandomBytes = (byteLength: number) => Bytes;

/** The host's generator for secrets: there in Node, in pages and in workers, on plain http too. */
export const secureRandom: RandomBytes = (byteLength) => globalThis.crypto.getRandomValues(new Uint8Array(byteLength));
