import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { IntegrityError, type Location, SourceError, UsageError } from "../../base/errors.ts";
import { decodeHex, encodeUtf8 } from "../../base/text.ts";
import { untilAborted } from "../../bytes/abort.ts";
import type { EncryptionRule, PasswordSource } from "../../model/format.ts";
import { AES_KEY_BYTES } from "../../primitives/cipher/aes.ts";
import { equalSecrets, hkdfSha256, hmacSha512 } from "../../primitives/crypto/hmac.ts";
import { type RandomBytes, wipe } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { StoredHeader } from "./header.ts";
import { MAC_OFFSET, PLAINTEXT_FLAG, type VaultHeader, vaultHeader, withoutMac } from "./layout.ts";

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
  signal?.throwIfAborted();
  const deriving = engine.argon2id(password, { ...KDF_COST, salt, byteLength: AES_KEY_BYTES });
  const base = await untilAborted(deriving, signal, wipe);
  try {
    return await expandWrappingKeys(engine, base, labels);
  } finally {
    wipe(base);
  }
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

function hexKey(digits: string): Bytes {
  return decodeHex(digits) ?? EMPTY_BYTES;
}

/** The places of fields that messages name; a password opens the part that begins with the salt. */
const FIELDS = vaultHeader.fields;

/** The password source and the engine. */
export interface UnlockContext {
  readonly engine: Engine;
  /** The keys of a vault that was opened before, instead of its password: a copy, which becomes the result. */
  readonly keys?: (() => VaultKeys) | undefined;
  readonly password?: PasswordSource | undefined;
  readonly encryption?: EncryptionRule | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The keys of a vault, after a check that its header is the one that was written. The two wrapped keys decide, as far
 * as they can, between `usage/password.wrong` and `integrity/aerovault.header` (docs/formats/aerovault.md#keys).
 */
export async function unlock(header: StoredHeader, context: UnlockContext, at: Location): Promise<VaultKeys> {
  const isPlain = (header.values.flags & PLAINTEXT_FLAG) !== 0;
  if (context.keys !== undefined) return proveKeys(header, context.keys(), context.engine, at);
  const { salt, wrappedMasterKey, wrappedMacKey } = header.values;
  const isBlank = [salt, wrappedMasterKey, wrappedMacKey].every((bytes) => bytes.every((byte) => byte === 0));
  if (isBlank && !isPlain) {
    // No writer makes such slots for an encrypted vault, so the flag of the plaintext lane was lost.
    throw damagedHeader(
      "the key slots must hold keys, found zeros where flags say that the vault is encrypted",
      at,
      FIELDS.flags.offset,
    );
  }
  if (isPlain && context.encryption === "expected") throw unencrypted(at);
  const keys = isPlain ? plainKeys() : await unlockVault(header.values, context, at);
  try {
    const mac = await headerMac(context.engine, keys.mac, header.bytes);
    if (equalSecrets(mac, header.values.mac)) return keys;
    const problem = isPlain
      ? "its HMAC must match, and does not"
      : "its HMAC must match, and does not although the password is right";
    throw damagedHeader(problem, at, MAC_OFFSET);
  } catch (error) {
    wipeKeys(keys);
    throw error;
  }
}

/** Known keys prove themselves by the header's HMAC, which cannot be made without them. */
async function proveKeys(header: StoredHeader, keys: VaultKeys, engine: Engine, at: Location): Promise<VaultKeys> {
  const lane: Lane = (header.values.flags & PLAINTEXT_FLAG) === 0 ? "encrypted" : "plain";
  try {
    const mac = await headerMac(engine, keys.mac, header.bytes);
    if (lane === keys.lane && equalSecrets(mac, header.values.mac)) return keys;
    const message = `Cannot open "${at.source}" with the keys that it had: it has others now, or its header is damaged`;
    const hint = "Its keys were changed, or another vault has its place: open it again, with its password of now";
    throw new SourceError("source/vault.keys", message, { ...at, offset: FIELDS.salt.offset }, { hint });
  } catch (error) {
    wipeKeys(keys);
    throw error;
  }
}

/** A copy, which is wiped by itself. */
export function copyKeys({ lane, master, mac, chunkId }: VaultKeys): VaultKeys {
  return { lane, master: master.slice(), mac: mac.slice(), chunkId: chunkId.slice() };
}

async function unlockVault(slots: KeySlots, context: UnlockContext, at: Location): Promise<VaultKeys> {
  const keys = await unlockSlots(slots, context, at);
  return completeKeys(context.engine, { lane: "encrypted", ...keys });
}

/** The two keys that a password opens, in any version that wraps them this way. The caller wipes them. */
export async function unlockSlots(
  slots: KeySlots,
  context: UnlockContext,
  at: Location,
  labels?: WrappingLabels,
): Promise<WrappingKeys> {
  const { engine, signal } = context;
  const secret = await askPassword(at, context.password);
  try {
    const wrapping = await deriveWrappingKeys(engine, secret, slots.salt, { labels, signal });
    try {
      const aes = await engine.aes();
      const mac = await aes.unwrapKey(wrapping.mac, slots.wrappedMacKey);
      return judgeSlots({ mac, master: await aes.unwrapKey(wrapping.master, slots.wrappedMasterKey) }, at);
    } finally {
      wipe(wrapping.master, wrapping.mac);
    }
  } finally {
    wipe(secret);
  }
}

/** The password for the file; the caller wipes it. Throws `usage/password.missing` if there is none. */
export async function askPassword(at: Location, password: PasswordSource = noPassword): Promise<Bytes> {
  const secret = await password(at.source);
  if (secret !== undefined) return secret;
  throw missingPassword(at);
}

const noPassword: PasswordSource = async () => undefined;

interface OpenedSlots {
  readonly mac: Bytes | undefined;
  readonly master: Bytes | undefined;
}

/** Each wrapped key has a check of 64 bits: one that opens proves the password, even if the other does not open. */
function judgeSlots({ mac, master }: OpenedSlots, at: Location): WrappingKeys {
  if (mac !== undefined && master !== undefined) return { master, mac };
  wipe(mac, master);
  if (mac !== undefined)
    throw damagedHeader(
      "the password is right, but the wrapped master key is damaged",
      at,
      FIELDS.wrappedMasterKey.offset,
    );
  if (master !== undefined)
    throw damagedHeader("the password is right, but the wrapped MAC key is damaged", at, FIELDS.wrappedMacKey.offset);
  throw new UsageError(
    "usage/password.wrong",
    `Cannot open "${at.source}": the password is wrong, or the salt or both wrapped keys of its header are damaged`,
    { ...at, offset: FIELDS.salt.offset },
    {
      hint: `Check the password; a vault inside another has its own. If it is certain, the header is damaged. ${OTHER_NAME}`,
    },
  );
}

/** A hard link, or a file that is mounted by itself, has no journal beside it: that is beside the name that was changed. */
const OTHER_NAME =
  "If the vault has another name or place, open it there: a file beside it may complete an interrupted change. If not, get another copy";

export function damagedHeader(problem: string, at: Location, offset: number): IntegrityError {
  const message = `Cannot trust the header of the vault: ${problem}`;
  const hint = OTHER_NAME;
  return new IntegrityError("integrity/aerovault.header", message, { ...at, offset }, { hint });
}

function unencrypted(at: Location): UsageError {
  const message = `Cannot open "${at.source}" with a password: it is a vault without encryption, which anybody could have put there`;
  const hint = "Where it is meant to have none, pass no password, or the option encryption: false with it";
  return new UsageError("usage/vault.unencrypted", message, { ...at, offset: FIELDS.flags.offset }, { hint });
}

function missingPassword(at: Location): UsageError {
  const hint = "Pass the option password";
  const place = { ...at, offset: FIELDS.salt.offset };
  return new UsageError("usage/password.missing", `Cannot open "${at.source}" without a password`, place, { hint });
}
