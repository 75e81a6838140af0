import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { decodeHex, encodeUtf8 } from "../../base/text.ts";
import { AES_KEY_BYTES } from "../../primitives/cipher/aes.ts";
import { hkdfSha256, hmacSha512 } from "../../primitives/crypto/hmac.ts";
import { type RandomBytes, wipe } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";
import { type VaultHeader, withoutMac } from "./layout.ts";

/** Argon2id's cost: fixed by the format, stored nowhere (docs/formats/aerovault.md#keys). */
export const KDF_COST = { memoryKib: 131_072, passes: 4, lanes: 4 } as const;

/** A password of fewer UTF-8 bytes is refused when a vault is made or its password changed, never when it is opened. */
export const MIN_PASSWORD_BYTES = 8;

export const SALT_BYTES = 32;

/** Labels of HKDF for the two keys that wrap a vault's keys: each version has its own. */
export interface WrappingLabels {
  readonly master: Bytes;
  readonly mac: Bytes;
}

export const V3_LABELS: WrappingLabels = {
  master: encodeUtf8("AeroVault v3 KEK for master key"),
  mac: encodeUtf8("AeroVault v3 KEK for MAC key"),
};
const CHUNK_ID_INFO = encodeUtf8("AeroVault v3 keyed BLAKE3 chunk ids");

/** HKDF-SHA256 of "AeroVault v3 aerovz public container", info "AeroVault v3 aerovz header integrity key". */
const PLAIN_MAC_KEY = hexKey("97f78630fe09ff3a4d06a8ad6eb684093d99918d6851452992036908e2e1f483");
/** HKDF-SHA256 of 32 zeros, info CHUNK_ID_INFO. */
const PLAIN_CHUNK_ID_KEY = hexKey("8c2c41506c522a3698ea4842959f8cb4b87a2fc87d911d07c77b920127c21119");

/** "plain" is the plaintext lane: the same container without encryption, its keys known to everybody. */
export type Lane = "encrypted" | "plain";

/** What opens everything in a vault. Whoever holds it wipes it. */
export interface VaultKeys {
  readonly lane: Lane;
  /** The key of manifest and blocks. */
  readonly master: Bytes;
  readonly mac: Bytes;
  readonly chunkId: Bytes;
}

/** The part of a header that a password opens. */
export type KeySlots = Pick<VaultHeader, "salt" | "wrappedMasterKey" | "wrappedMacKey">;

/** New keys for a new vault: two secrets of their own, in the order in which the reference draws them. */
export function makeKeys(engine: Engine, random: RandomBytes): Promise<VaultKeys> {
  const master = random(AES_KEY_BYTES);
  return completeKeys(engine, { lane: "encrypted", master, mac: random(AES_KEY_BYTES) });
}

/** The keys of every vault in the plaintext lane: HKDF of public text, and what follows from a master key of zeros. */
export function plainKeys(): VaultKeys {
  const master = new Uint8Array(AES_KEY_BYTES);
  return { lane: "plain", master, mac: PLAIN_MAC_KEY.slice(), chunkId: PLAIN_CHUNK_ID_KEY.slice() };
}

/** Adds what is derived from the master key. */
export async function completeKeys(engine: Engine, keys: Omit<VaultKeys, "chunkId">): Promise<VaultKeys> {
  const chunkId = await hkdfSha256(engine, keys.master, { info: CHUNK_ID_INFO, byteLength: AES_KEY_BYTES });
  return { ...keys, chunkId };
}

/** The two keys that wrap a vault's keys. Whoever holds them wipes them. */
export interface WrappingKeys {
  readonly master: Bytes;
  readonly mac: Bytes;
}

export interface DerivationOptions {
  readonly labels?: WrappingLabels | undefined;
  /** Called once, when the derivation is under way. */
  readonly onBegin?: (() => void) | undefined;
}

/** Takes as long as Argon2id does. The password stays the caller's. */
export async function deriveWrappingKeys(
  engine: Engine,
  password: Bytes,
  salt: Bytes,
  { labels = V3_LABELS, onBegin }: DerivationOptions = {},
): Promise<WrappingKeys> {
  const base = await engine.argon2id(password, { ...KDF_COST, salt, byteLength: AES_KEY_BYTES }, onBegin);
  try {
    return await expandWrappingKeys(engine, base, labels);
  } finally {
    wipe(base);
  }
}

/** From what Argon2id gave. */
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
  salt: Bytes,
): Promise<KeySlots> {
  const wrapping = await deriveWrappingKeys(engine, password, salt);
  try {
    const aes = await engine.aes();
    const wrappedMasterKey = await aes.wrapKey(wrapping.master, keys.master);
    return { salt, wrappedMasterKey, wrappedMacKey: await aes.wrapKey(wrapping.mac, keys.mac) };
  } finally {
    wipe(wrapping.master, wrapping.mac);
  }
}

/** What the slots of the plaintext lane hold: nothing. */
export const EMPTY_SLOTS: KeySlots = {
  salt: new Uint8Array(SALT_BYTES),
  wrappedMasterKey: new Uint8Array(AES_KEY_BYTES + 8),
  wrappedMacKey: new Uint8Array(AES_KEY_BYTES + 8),
};

/** HMAC-SHA512 of a header, whatever stands in its MAC field. */
export function headerMac(engine: Engine, macKey: Bytes, header: Bytes): Promise<Bytes> {
  return hmacSha512(engine, macKey, [withoutMac(header)]);
}

/** Overwrites what can be overwritten; copies that engines made are theirs to wipe. */
export function wipeKeys(keys: VaultKeys): void {
  wipe(keys.master, keys.mac, keys.chunkId);
}

/** A key of ours for another purpose, such as the chunker's table: never equal to any that the format uses. */
export function deriveFromMaster(engine: Engine, keys: VaultKeys, info: string, byteLength: number): Promise<Bytes> {
  return hkdfSha256(engine, keys.master, { salt: EMPTY_BYTES, info: encodeUtf8(info), byteLength });
}

function hexKey(digits: string): Bytes {
  return decodeHex(digits) ?? EMPTY_BYTES;
}
