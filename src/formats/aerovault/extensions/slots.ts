import type { Bytes } from "../../../base/bytes.ts";
import { type Location, UsageError } from "../../../base/errors.ts";
import { decodeBase64Url, encodeBase64Url, encodeHex, encodeUtf8 } from "../../../base/text.ts";
import { AES_KEY_BYTES } from "../../../primitives/cipher/aes.ts";
import { hkdfSha256 } from "../../../primitives/crypto/hmac.ts";
import { type RandomBytes, wipe } from "../../../primitives/crypto/secrets.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { bytes, struct, u8 } from "../../../struct/layout.ts";
import { expandWrappingKeys, type KeySlots, type WrappingKeys, type WrappingLabels } from "../keys.ts";
import { NO_EXTRA_KEYS } from "../manifest/field-reader.ts";
import type { ExtensionRow } from "./rows.ts";

/**
 * Key slots: rows of the extension directory that wrap the keys of the vault for another password or key
 * (docs/formats/aerovault.md#key-slots). The data is in `algorithm_id`, because the reference keeps that and no payload.
 */

/** No more are tried, and no more are made. */
export const MOST_SLOTS = 16;
/** A key of fewer bytes cannot have 128 random bits. */
export const LEAST_KEY_BYTES = 16;

const ID_PREFIX = "tare.key.";
const DATA_PREFIX = "tare-key-slot-1:";
const ROW_VERSION = 1;
const SLOT_VERSION = 1;
const ID_BYTES = 4;
/** Kinds by their number in a slot. A password needs Argon2id; a key has random bits enough for HKDF. */
const KINDS: readonly (SlotKind | undefined)[] = [undefined, "password", "key"];
const BASE_INFO = encodeUtf8("tare key slot v1 base");

const slotData = struct("key slot", 114, {
  version: u8(0),
  kind: u8(1),
  salt: bytes(2, 32),
  wrappedMasterKey: bytes(34, 40),
  wrappedMacKey: bytes(74, 40),
});

export type SlotKind = "password" | "key";

/** The keys of a vault, wrapped for one password or key. */
export interface KeySlot extends KeySlots {
  /** Eight hex digits. */
  readonly id: string;
  readonly kind: SlotKind;
}

/** The extension id of a slot's row. */
export function slotRowId(id: string): string {
  return `${ID_PREFIX}${id}`;
}

/** True for the id of a slot: eight hex digits in lower case. */
export function isSlotId(text: string): boolean {
  return /^[0-9a-f]{8}$/.test(text);
}

/** The slot in a row; undefined for other extensions, and for what cannot be read as a slot. */
export function readSlot({ extensionId, algorithmId, algorithmVersion, length }: ExtensionRow): KeySlot | undefined {
  const id = extensionId.slice(ID_PREFIX.length);
  if (!extensionId.startsWith(ID_PREFIX) || !isSlotId(id)) return undefined;
  if (!algorithmId.startsWith(DATA_PREFIX) || algorithmVersion !== ROW_VERSION || length !== 0) return undefined;
  const data = decodeBase64Url(algorithmId.slice(DATA_PREFIX.length));
  if (data?.byteLength !== slotData.byteLength) return undefined;
  const { version, kind: number, ...slots } = slotData.decode(data, { source: extensionId, offset: 0 });
  const kind = KINDS[number];
  return version === SLOT_VERSION && kind !== undefined ? { id, kind, ...slots } : undefined;
}

/** Every slot of a vault, in the order of the rows. What cannot be read as a slot is left out. */
export function readSlots(rows: readonly ExtensionRow[]): readonly KeySlot[] {
  return rows.map(readSlot).filter((slot) => slot !== undefined);
}

/**
 * The slots that opening tries. Everyone can add rows: so only the first 16 count, and only passwords with the salt of
 * the first one, because each salt costs an Argon2id.
 */
export function slotsToTry(rows: readonly ExtensionRow[]): readonly KeySlot[] {
  const slots = readSlots(rows).slice(0, MOST_SLOTS);
  const salt = slots.find(({ kind }) => kind === "password")?.salt;
  return slots.filter((slot) => slot.kind === "key" || slot.salt.every((byte, i) => byte === salt?.[i]));
}

/** The row of a slot: without a payload, which the reference would drop. */
export function slotRow({ id, kind, salt, wrappedMasterKey, wrappedMacKey }: KeySlot): ExtensionRow {
  const data = slotData.encode({
    version: SLOT_VERSION,
    kind: KINDS.indexOf(kind),
    salt,
    wrappedMasterKey,
    wrappedMacKey,
  });
  return {
    extensionId: slotRowId(id),
    algorithmId: `${DATA_PREFIX}${encodeBase64Url(data)}`,
    algorithmVersion: ROW_VERSION,
    critical: false,
    offset: 0,
    length: 0,
    extra: NO_EXTRA_KEYS,
  };
}

/** An id that nothing of the vault has. */
export function newSlotId(random: RandomBytes, taken: ReadonlySet<string>): string {
  for (;;) {
    const id = encodeHex(random(ID_BYTES));
    if (!taken.has(id)) return id;
  }
}

/** What the two wrapping keys of a "key" slot are derived from. The caller wipes it. */
export function keyBase(engine: Engine, key: Bytes, salt: Bytes): Promise<Bytes> {
  return hkdfSha256(engine, key, { salt, info: BASE_INFO, byteLength: AES_KEY_BYTES });
}

/** The id makes slots of one password differ in all their bytes. */
function labelsOf(id: string): WrappingLabels {
  return {
    master: encodeUtf8(`tare key slot v1 master ${id}`),
    mac: encodeUtf8(`tare key slot v1 mac ${id}`),
  };
}

/** A slot with these keys of a vault; `base` is the output of Argon2id, or of `keyBase`. */
export async function wrapSlot(
  engine: Engine,
  keys: WrappingKeys,
  base: Bytes,
  { id, kind, salt }: Pick<KeySlot, "id" | "kind" | "salt">,
): Promise<KeySlot> {
  const wrapping = await expandWrappingKeys(engine, base, labelsOf(id));
  try {
    const aes = await engine.aes();
    const wrappedMasterKey = await aes.wrapKey(wrapping.master, keys.master);
    return { id, kind, salt, wrappedMasterKey, wrappedMacKey: await aes.wrapKey(wrapping.mac, keys.mac) };
  } finally {
    wipe(wrapping.master, wrapping.mac);
  }
}

/** The two keys in a slot, which the caller wipes; undefined if it was made for another password or key. */
export async function unwrapSlot(engine: Engine, slot: KeySlot, base: Bytes): Promise<WrappingKeys | undefined> {
  const wrapping = await expandWrappingKeys(engine, base, labelsOf(slot.id));
  try {
    const aes = await engine.aes();
    const mac = await aes.unwrapKey(wrapping.mac, slot.wrappedMacKey);
    const master = await aes.unwrapKey(wrapping.master, slot.wrappedMasterKey);
    if (mac !== undefined && master !== undefined) return { master, mac };
    wipe(mac, master);
    return undefined;
  } finally {
    wipe(wrapping.master, wrapping.mac);
  }
}

/** The key in a key file: its bytes without one newline at the end. The caller owns `file`, and wipes the result. */
export function keyOfFile(file: Bytes, at: Location): Bytes {
  const newline = file.at(-1) !== 0x0a ? 0 : file.at(-2) === 0x0d ? 2 : 1;
  const length = file.byteLength - newline;
  if (length >= LEAST_KEY_BYTES) return file.slice(0, length);
  const message = `Cannot use the key file: it must have ${LEAST_KEY_BYTES} bytes or more, found ${length}`;
  const hint = "A key file holds random bytes; tare makes one where the file does not exist";
  throw new UsageError("usage/vault.key-file", message, at, { hint });
}

/** Crockford's base32: no I, L, O and U. */
const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/** 140 bits. */
const RECOVERY_LETTERS = 28;
const GROUP = 4;

/** A new recovery key, as bytes that are its letters. The caller wipes it. */
export function newRecoveryKey(random: RandomBytes): Bytes {
  return random(RECOVERY_LETTERS).map((byte) => LETTERS.charCodeAt(byte % LETTERS.length));
}

/** The recovery key as people write it down. */
export function recoveryText(key: Bytes): string {
  const letters = String.fromCharCode(...key);
  return (letters.match(new RegExp(`.{${GROUP}}`, "g")) ?? []).join("-");
}

/**
 * The recovery key in a text that was entered like a password; undefined if it is none. Case, spaces and dashes do not
 * matter, O is read as 0, I and L as 1. The caller wipes it.
 */
export function recoveryKeyIn(entered: Bytes): Bytes | undefined {
  const key = new Uint8Array(RECOVERY_LETTERS);
  let length = 0;
  for (const byte of entered) {
    if (byte === 0x20 || byte === 0x2d) continue;
    const letter = letterOf(byte);
    if (letter === undefined || length === RECOVERY_LETTERS) return wiped(key);
    key[length++] = letter;
  }
  return length === RECOVERY_LETTERS ? key : wiped(key);
}

function wiped(key: Bytes): undefined {
  wipe(key);
}

/** The letter as Crockford reads it; undefined if it is none. */
function letterOf(byte: number): number | undefined {
  const capital = byte >= 0x61 && byte <= 0x7a ? byte - 0x20 : byte;
  const letter = capital === 0x4f ? 0x30 : capital === 0x49 || capital === 0x4c ? 0x31 : capital;
  return LETTERS.includes(String.fromCharCode(letter)) ? letter : undefined;
}
