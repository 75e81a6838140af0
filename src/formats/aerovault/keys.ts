import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { decodeHex, encodeUtf8 } from "../../base/text.ts";
import { untilAborted } from "../../bytes/abort.ts";
import { AES_KEY_BYTES } from "../../primitives/cipher/aes.ts";
import { hkdfSha256, hmacSha512 } from "../../primitives/crypto/hmac.ts";
import { type RandomBytes, wipe } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";
import { type VaultHeader, withoutMac } from "./layout.ts";

/** Argon2id's cost: fixed by the format, stored nowhere (docs/formats/aerovault.md#keys). */
export const KDF_COST = { memoryKib: 131_072, passes: 4, lanes: 4 } as const;

/**
 * A shorter password, in UTF-8 bytes, is refused when a vault is created or its password changed, never when it is
 * opened.
 */
export const MIN_PASSWORD_BYTES = 8;

export const SALT_BYTES = 32;

/** HKDF labels for the two keys that wrap a vault's keys: each version has its own. */
export interface WrappingLabels {
  readonly master: Bytes;
  readonly mac: Bytes;
}

const V3_LABELS: WrappingLabels = {
  master: encodeUtf8("AeroVault v3 KEK for master key"),
  mac: encodeUtf8("AeroVault v3 KEK for MAC key"),
};
const CHUNK_ID_INFO = encodeUtf8("AeroVault v3 keyed BLAKE3 chunk ids");

/** HKDF-SHA256 of "AeroVault v3 aerovz public container", info "AeroVault v3 aerovz header integrity key". */
const PLAIN_MAC_KEY = hexKey("97f78630fe09ff3a4d06a8ad6eb684093d99918d6851452992036908e2e1f483");
/** HKDF-SHA256 of 32 zeros, info CHUNK_ID_INFO. */
const PLAIN_CHUNK_ID_KEY = hexKey("8c2c41506c522a3698ea4842959f8cb4b87a2fc87d911d07c77b920127c21119");

/** "plain" is the plaintext lane: the same container without encryption, with public keys. */
export type Lane = "encrypted" | "plain";

/** The keys for everything in a vault. The holder wipes them. */
export interface VaultKeys {
  readonly lane: Lane;
  /** The key of manifest and blocks. */
  readonly master: Bytes;
  readonly mac: Bytes;
  readonly chunkId: Bytes;
}

/** The part of a header that a password opens. */
export type KeySlots = Pick<VaultHeader, "salt" | "wrappedMasterKey" | "wrappedMacKey">;

/** New keys for a new vault: two separate secrets, in the order in which the reference draws them. */
export function makeKeys(engine: Engine, random: RandomBytes): Promise<VaultKeys> {
  const master = random(AES_KEY_BYTES);
  return completeKeys(engine, { lane: "encrypted", master, mac: random(AES_KEY_BYTES) });
}

/**
 * The keys of every vault in the plaintext lane: HKDF of public text, and the id key derived from a master key of
 * zeros.
 */
export function plainKeys(): VaultKeys {
  const master = new Uint8Array(AES_KEY_BYTES);
  return { lane: "plain", master, mac: PLAIN_MAC_KEY.slice(), chunkId: PLAIN_CHUNK_ID_KEY.slice() };
}

/** Adds the key that is derived from the master key. */
export async function completeKeys(engine: Engine, keys: Omit<VaultKeys, "chunkId">): Promise<VaultKeys> {
  const chunkId = await hkdfSha256(engine, keys.master, { info: CHUNK_ID_INFO, byteLength: AES_KEY_BYTES });
  return { ...keys, chunkId };
}

/** The two keys that wrap a vault's keys. The holder wipes them. */
export interface WrappingKeys {
  readonly master: Bytes;
  readonly mac: Bytes;
}

interface DeriveOptions {
  readonly labels?: WrappingLabels | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Takes as long as Argon2id. The caller keeps the password, and wipes it. */
export async function deriveWrappingKeys(
  engine: Engine,
  password: Bytes,
  salt: Bytes,
  { labels = V3_LABELS, signal }: DeriveOptions = {},
): Promise<WrappingKeys> {
  const base = await deriveBase(engine, password, { salt, signal });
  try {
    return await expandWrappingKeys(engine, base, labels);
  } finally {
    wipe(base);
  }
}

/** Where a key of a vault is derived from. */
export interface BaseOptions {
  readonly salt: Bytes;
  readonly signal?: AbortSignal | undefined;
}

/** The output of Argon2id, from which wrapping keys are derived. The caller wipes it. */
export async function deriveBase(engine: Engine, password: Bytes, { salt, signal }: BaseOptions): Promise<Bytes> {
  signal?.throwIfAborted();
  return untilAborted(engine.argon2id(password, { ...KDF_COST, salt, byteLength: AES_KEY_BYTES }), signal, wipe);
}

/** Derives them from the output of Argon2id. */
export async function expandWrappingKeys(
  engine: Engine,
  base: Bytes,
  labels: WrappingLabels = V3_LABELS,
): Promise<WrappingKeys> {
  const master = await hkdfSha256(engine, base, { info: labels.master, byteLength: AES_KEY_BYTES });
  return { master, mac: await hkdfSha256(engine, base, { info: labels.mac, byteLength: AES_KEY_BYTES }) };
}

/** The key slots of a header for a password; the random salt comes from the caller. */
export async function wrapKeys(
  engine: Engine,
  keys: Pick<VaultKeys, "master" | "mac">,
  password: Bytes,
  { salt, signal }: { readonly salt: Bytes; readonly signal?: AbortSignal | undefined },
): Promise<KeySlots> {
  const wrapping = await deriveWrappingKeys(engine, password, salt, { signal });
  try {
    const aes = await engine.aes();
    const wrappedMasterKey = await aes.wrapKey(wrapping.master, keys.master);
    return { salt, wrappedMasterKey, wrappedMacKey: await aes.wrapKey(wrapping.mac, keys.mac) };
  } finally {
    wipe(wrapping.master, wrapping.mac);
  }
}

/** The slots of the plaintext lane, which are empty. */
export const EMPTY_SLOTS: KeySlots = {
  salt: new Uint8Array(SALT_BYTES),
  wrappedMasterKey: new Uint8Array(AES_KEY_BYTES + 8),
  wrappedMacKey: new Uint8Array(AES_KEY_BYTES + 8),
};

/** HMAC-SHA512 of a header; the content of its MAC field does not matter. */
export function headerMac(engine: Engine, macKey: Bytes, header: Bytes): Promise<Bytes> {
  return hmacSha512(engine, macKey, [withoutMac(header)]);
}

/** Overwrites these copies; engines must wipe the copies that they made. */
export function wipeKeys(keys: VaultKeys): void {
  wipe(keys.master, keys.mac, keys.chunkId);
}

/** A key of ours for another purpose, such as the chunker's table: never equal to a key of the format. */
export function deriveFromMaster(engine: Engine, keys: VaultKeys, info: string, byteLength: number): Promise<Bytes> {
  return hkdfSha256(engine, keys.master, { salt: EMPTY_BYTES, info: encodeUtf8(info), byteLength });
}

/** A copy, which is wiped by itself. */
export function copyKeys({ lane, master, mac, chunkId }: VaultKeys): VaultKeys {
  return { lane, master: master.slice(), mac: mac.slice(), chunkId: chunkId.slice() };
}

function hexKey(digits: string): Bytes {
  return decodeHex(digits) ?? EMPTY_BYTES;
}
