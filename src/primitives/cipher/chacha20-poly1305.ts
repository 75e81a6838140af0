import { type Bytes, EMPTY_BYTES, equalBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { decodeHex } from "../../base/text.ts";

/** RFC 8439 §2.8. */
export const CHACHA_KEY_BYTES = 32;
export const CHACHA_NONCE_BYTES = 12;
export const CHACHA_TAG_BYTES = 16;

/** A key of ChaCha20-Poly1305 (RFC 8439), ready for many messages. Synchronous, for the outer layer of vault chunks. */
export interface ChachaKey {
  /** Ciphertext and tag. A nonce must never be used twice with one key. */
  seal(nonce: Bytes, plain: Bytes, associated: Bytes): Bytes;
  /** The plain bytes; undefined if the tag does not match: then no part of them is returned. */
  open(nonce: Bytes, sealed: Bytes, associated: Bytes): Bytes | undefined;
  /** Overwrites the key. May be called twice. Using it afterwards is a UsageError `usage/chacha20-poly1305`. */
  wipe(): void;
}

/** One implementation: prepares keys of 32 bytes, which it copies. */
export type ChachaPoly = (key: Bytes) => ChachaKey;

/** Refuses keys and nonces of other lengths. */
export function checkChacha(what: "key" | "nonce", bytes: Bytes): void {
  const wanted = what === "key" ? CHACHA_KEY_BYTES : CHACHA_NONCE_BYTES;
  if (bytes.byteLength === wanted) return;
  const message = `Cannot use ChaCha20-Poly1305: the ${what} must have ${wanted} bytes, found ${bytes.byteLength}`;
  throw new UsageError("usage/chacha20-poly1305", message, { source: "engine" });
}

/** Without this error a wiped key would silently seal with zeros. */
export function wipedChacha(): UsageError {
  const message = "Cannot use ChaCha20-Poly1305: the key must not have been wiped, and it was";
  return new UsageError("usage/chacha20-poly1305", message, { source: "engine" });
}

/** RFC 8439 §2.8.2. */
const ANSWER = {
  key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
  nonce: "070000004041424344454647",
  associated: "50515253c0c1c2c3c4c5c6c7",
  plain:
    "4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f756c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73637265656e20776f756c642062652069742e",
  sealed:
    "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691",
} as const;

/** True if the published answer comes out and a flipped bit is noticed. */
export function provesChacha(chacha: ChachaPoly): boolean {
  const [key, nonce, associated, plain, sealed] = [
    ANSWER.key,
    ANSWER.nonce,
    ANSWER.associated,
    ANSWER.plain,
    ANSWER.sealed,
  ].map((hex) => decodeHex(hex) ?? EMPTY_BYTES) as [Bytes, Bytes, Bytes, Bytes, Bytes];
  const ready = chacha(key);
  const isRight =
    equalBytes(ready.seal(nonce, plain, associated), sealed) &&
    equalBytes(ready.open(nonce, sealed, associated) ?? EMPTY_BYTES, plain);
  sealed[1] = (sealed[1] as number) ^ 1;
  const isForged = ready.open(nonce, sealed, associated) !== undefined;
  ready.wipe();
  return isRight && !isForged;
}
