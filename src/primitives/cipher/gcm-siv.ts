import { type Bytes, EMPTY_BYTES, equalBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { decodeHex } from "../../base/text.ts";
import { AES_KEY_BYTES } from "./aes.ts";

/** AES-256-GCM-SIV appends a tag of this length. */
export const GCM_SIV_TAG_BYTES = 16;
/** RFC 8452 has one length of nonce. */
export const GCM_SIV_NONCE_BYTES = 12;

/**
 * A key of AES-256-GCM-SIV (RFC 8452), ready for many messages. Synchronous, because a vault has thousands of blocks to
 * seal. A repeated nonce reveals only whether two messages are equal.
 */
export interface GcmSivKey {
  /**
   * Ciphertext and tag, 16 bytes longer than `plain`. If `into` is given, it receives the result at its start, and the
   * result is a view of it. It must have the room, and may begin where `plain` does.
   */
  seal(nonce: Bytes, plain: Bytes, associated: Bytes, into?: Bytes): Bytes;
  /**
   * The plain bytes; undefined if the tag does not match: then the bytes written to `into` are zeros. `into` may begin
   * where `sealed` does.
   */
  open(nonce: Bytes, sealed: Bytes, associated: Bytes, into?: Bytes): Bytes | undefined;
  /** Overwrites the key. May be called twice. Using the key afterwards is a UsageError `usage/gcm-siv`. */
  wipe(): void;
}

/** One implementation: prepares keys of 32 bytes, which it copies. */
export type GcmSiv = (key: Bytes) => GcmSivKey;

/** Where a sealed or an opened message goes: `into`, cut to length, or a new buffer. */
export function roomFor(into: Bytes | undefined, byteLength: number): Bytes {
  if (into === undefined) return new Uint8Array(byteLength);
  if (into.byteLength >= byteLength) return into.subarray(0, byteLength);
  const message = `Cannot use AES-256-GCM-SIV: the output must have room for ${byteLength} bytes, found ${into.byteLength}`;
  throw new UsageError("usage/gcm-siv", message, { source: "engine" });
}

/** Refuses keys and nonces whose length is not that of RFC 8452. */
export function checkGcmSiv(what: "key" | "nonce", bytes: Bytes): void {
  const wanted = what === "key" ? AES_KEY_BYTES : GCM_SIV_NONCE_BYTES;
  if (bytes.byteLength === wanted) return;
  const message = `Cannot use AES-256-GCM-SIV: the ${what} must have ${wanted} bytes, found ${bytes.byteLength}`;
  throw new UsageError("usage/gcm-siv", message, { source: "engine" });
}

/** Without this error a wiped key would silently seal with zeros. */
export function wipedKey(): UsageError {
  const message = "Cannot use AES-256-GCM-SIV: the key must not have been wiped, and it was";
  return new UsageError("usage/gcm-siv", message, { source: "engine" });
}

/** The last hashed block (RFC 8452 §4): both lengths in bits, little-endian. */
export function encodeLengths(associatedBytes: number, plainBytes: number): Bytes {
  const view = new DataView(new ArrayBuffer(16));
  view.setBigUint64(0, BigInt(associatedBytes) * 8n, true);
  view.setBigUint64(8, BigInt(plainBytes) * 8n, true);
  return new Uint8Array(view.buffer);
}

/** The six blocks whose encipherment gives both keys of a message (RFC 8452 §4). */
export function derivationBlocks(nonce: Bytes): Bytes {
  const blocks = new Uint8Array(6 * 16);
  for (let i = 0; i < 6; i++) {
    blocks[16 * i] = i;
    blocks.set(nonce, 16 * i + 4);
  }
  return blocks;
}

/** The keys from the enciphered blocks: first that of POLYVAL, then that of the cipher. */
export function derivedKeys(enciphered: Bytes): Bytes {
  const keys = new Uint8Array(6 * 8);
  for (let i = 0; i < 6; i++) keys.set(enciphered.subarray(16 * i, 16 * i + 8), 8 * i);
  return keys;
}

/** The block that is enciphered to the tag (RFC 8452 §4): the sum with the nonce, top bit cleared. Changes `sum`. */
export function tagInput(sum: Bytes, nonce: Bytes): Bytes {
  for (let i = 0; i < GCM_SIV_NONCE_BYTES; i++) sum[i] = (sum[i] as number) ^ (nonce[i] as number);
  sum[15] = (sum[15] as number) & 0x7f;
  return sum;
}

/** The first counter block: the tag with its top bit set. */
export function firstCounter(tag: Bytes): Bytes {
  const counter = tag.slice();
  counter[15] = (counter[15] as number) | 0x80;
  return counter;
}

/** RFC 8452 appendix C.2, the last but one, and one of C.3, in which the counter wraps. */
const ANSWERS = [
  {
    key: "0100000000000000000000000000000000000000000000000000000000000000",
    nonce: "030000000000000000000000",
    plain: "030000000000000000000000000000000400",
    associated: "0100000000000000000000000000000002000000",
    sealed: "462401724b5ce6588d5a54aae5375513a075cfcdf5042112aa29685c912fc2056543",
  },
  {
    key: "0000000000000000000000000000000000000000000000000000000000000000",
    nonce: "000000000000000000000000",
    plain: "000000000000000000000000000000004db923dc793ee6497c76dcc03a98e108",
    associated: "",
    sealed: "f3f80f2cf0cb2dd9c5984fcda908456cc537703b5ba70324a6793a7bf218d3eaffffffff000000000000000000000000",
  },
] as const;

/** True if the published answers come out, and a message long enough for every path is sealed and opened again. */
export function provesGcmSiv(gcmSiv: GcmSiv): boolean {
  for (const answer of ANSWERS) {
    const [key, nonce, plain, associated, sealed] = [
      answer.key,
      answer.nonce,
      answer.plain,
      answer.associated,
      answer.sealed,
    ].map((hex) => decodeHex(hex) ?? EMPTY_BYTES) as [Bytes, Bytes, Bytes, Bytes, Bytes];
    const ready = gcmSiv(key);
    if (!equalBytes(ready.seal(nonce, plain, associated), sealed)) return false;
    if (!equalBytes(ready.open(nonce, sealed, associated) ?? EMPTY_BYTES, plain)) return false;
    sealed[1] = (sealed[1] as number) ^ 1;
    if (ready.open(nonce, sealed, associated) !== undefined) return false;
    ready.wipe();
  }
  return true;
}
