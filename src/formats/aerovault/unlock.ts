import type { Bytes } from "../../base/bytes.ts";
import { IntegrityError, type Location, SourceError, UsageError } from "../../base/errors.ts";
import type { EncryptionRule, PasswordSource } from "../../model/format.ts";
import { equalSecrets } from "../../primitives/crypto/hmac.ts";
import { wipe } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";
import { type KeySlot, keyBase, keyOfFile, recoveryKeyIn, unwrapSlot } from "./extensions/slots.ts";
import type { StoredHeader } from "./header.ts";
import {
  completeKeys,
  deriveBase,
  deriveWrappingKeys,
  expandWrappingKeys,
  headerMac,
  type KeySlots,
  type Lane,
  plainKeys,
  type VaultKeys,
  type WrappingKeys,
  type WrappingLabels,
  wipeKeys,
} from "./keys.ts";
import { MAC_OFFSET, PLAINTEXT_FLAG, vaultHeader } from "./layout.ts";

/** The places of fields that messages name; a password opens the part that begins with the salt. */
const FIELDS = vaultHeader.fields;

/** The sources of secrets, and the engine. */
export interface UnlockContext {
  readonly engine: Engine;
  /** The keys of a vault that was opened before, instead of its password: a copy, which becomes the result. */
  readonly keys?: (() => VaultKeys) | undefined;
  readonly password?: PasswordSource | undefined;
  /** Gives the bytes of a key file. It is tried before the password, which takes much longer. */
  readonly keyFile?: PasswordSource | undefined;
  readonly encryption?: EncryptionRule | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The keys of a vault, and what opened it. */
export interface Unlocked {
  readonly keys: VaultKeys;
  /** The id of the key slot; absent if the header's own password opened it, or known keys, or if there is no encryption. */
  readonly slot?: string | undefined;
}

/**
 * The keys of a vault, after a check that its header is the one that was written. The two wrapped keys decide, as far
 * as they can, between `usage/password.wrong` and `integrity/aerovault.header` (docs/formats/aerovault.md#keys).
 * `slots` are the key slots to try besides the header.
 */
export async function unlock(
  header: StoredHeader,
  slots: readonly KeySlot[],
  context: UnlockContext,
  at: Location,
): Promise<Unlocked> {
  const isPlain = (header.values.flags & PLAINTEXT_FLAG) !== 0;
  if (context.keys !== undefined) return { keys: await proveKeys(header, context.keys(), context.engine, at) };
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
  if (!isPlain) return new Unlocking(header, slots, context, at).run();
  if (context.encryption === "expected") throw unencrypted(at);
  const keys = plainKeys();
  if (await isOfHeader(header, keys.mac, context.engine)) return { keys };
  throw damagedHeader("its HMAC must match, and does not", at, MAC_OFFSET);
}

/** Whether the MAC key is that of the header. */
async function isOfHeader({ bytes, values }: StoredHeader, mac: Bytes, engine: Engine): Promise<boolean> {
  return equalSecrets(await headerMac(engine, mac, bytes), values.mac);
}

/** The tries of one opening: a wrong password costs at most two Argon2id, however many slots there are. */
class Unlocking {
  readonly #header: StoredHeader;
  readonly #slots: readonly KeySlot[];
  readonly #context: UnlockContext;
  readonly #at: Location;
  /** A slot opened, but its keys are not those of the header. */
  #isForeign = false;

  constructor(header: StoredHeader, slots: readonly KeySlot[], context: UnlockContext, at: Location) {
    this.#header = header;
    this.#slots = slots;
    this.#context = context;
    this.#at = at;
  }

  async run(): Promise<Unlocked> {
    const file = await this.#byKeyFile();
    if (file !== "none" && file !== "wrong") return file;
    const secret = await answerOf(this.#context.password, this.#at);
    if (secret === undefined)
      throw file === "wrong" ? this.#refusal(wrongKeyFile(this.#at)) : missingPassword(this.#at);
    try {
      return await this.#byPassword(secret);
    } finally {
      wipe(secret);
    }
  }

  async #byKeyFile(): Promise<Unlocked | "none" | "wrong"> {
    const { keyFile } = this.#context;
    if (keyFile === undefined) return "none";
    // One that is set for many vaults is not looked for where nothing can fit it.
    if (this.#slots.every(({ kind }) => kind !== "key")) return "wrong";
    const file = await answerOf(keyFile, this.#at);
    if (file === undefined) return "none";
    let key: Bytes | undefined;
    try {
      key = keyOfFile(file, this.#at);
      return (await this.#byKey(key)) ?? "wrong";
    } finally {
      wipe(file, key);
    }
  }

  async #byPassword(secret: Bytes): Promise<Unlocked> {
    const written = recoveryKeyIn(secret);
    try {
      const recovered = written && (await this.#byKey(written));
      if (recovered !== undefined) return recovered;
    } finally {
      wipe(written);
    }
    const { engine, signal } = this.#context;
    const { salt } = this.#header.values;
    let base = await deriveBase(engine, secret, { salt, signal });
    try {
      const opened = await this.#byHeader(base);
      if (opened !== undefined) return opened;
      const slots = this.#slots.filter(({ kind }) => kind === "password");
      const [first] = slots;
      if (first !== undefined && !equalSecrets(first.salt, salt)) {
        wipe(base);
        base = await deriveBase(engine, secret, { salt: first.salt, signal });
      }
      for (const slot of slots) {
        const found = await this.#bySlot(slot, base);
        if (found !== undefined) return found;
      }
    } finally {
      wipe(base);
    }
    throw this.#refusal(wrongPassword(this.#at));
  }

  /** The header's own password, which is the only one that other programs know; undefined if it is another one. */
  async #byHeader(base: Bytes): Promise<Unlocked | undefined> {
    const { engine } = this.#context;
    const wrapping = await expandWrappingKeys(engine, base);
    try {
      const opened = judgeSlots(await openSlots(engine, this.#header.values, wrapping), this.#at);
      if (opened === undefined) return undefined;
      const found = await this.#prove(opened);
      if (found !== undefined) return { keys: found };
      const problem = "its HMAC must match, and does not although the password is right";
      throw damagedHeader(problem, this.#at, MAC_OFFSET);
    } finally {
      wipe(wrapping.master, wrapping.mac);
    }
  }

  /** A key file or a recovery key. */
  async #byKey(key: Bytes): Promise<Unlocked | undefined> {
    for (const slot of this.#slots) {
      if (slot.kind !== "key") continue;
      const base = await keyBase(this.#context.engine, key, slot.salt);
      try {
        const found = await this.#bySlot(slot, base);
        if (found !== undefined) return found;
      } finally {
        wipe(base);
      }
    }
    return undefined;
  }

  async #bySlot(slot: KeySlot, base: Bytes): Promise<Unlocked | undefined> {
    const opened = await unwrapSlot(this.#context.engine, slot, base);
    if (opened === undefined) return undefined;
    const keys = await this.#prove(opened);
    if (keys !== undefined) return { keys, slot: slot.id };
    this.#isForeign = true;
    return undefined;
  }

  /** Everyone can write rows: keys from one count if the MAC of the header is made with them. Wipes those that do not. */
  async #prove(opened: WrappingKeys): Promise<VaultKeys | undefined> {
    const { engine } = this.#context;
    if (await isOfHeader(this.#header, opened.mac, engine))
      return completeKeys(engine, { lane: "encrypted", ...opened });
    wipe(opened.master, opened.mac);
    return undefined;
  }

  #refusal(otherwise: UsageError): UsageError | IntegrityError {
    if (!this.#isForeign) return otherwise;
    const problem =
      "a key slot opens, but not to the keys of the header, which is damaged unless the slot is of earlier keys";
    return damagedHeader(problem, this.#at, MAC_OFFSET);
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

/** The two keys that a password opens, in any version that wraps them this way. The caller wipes them. */
export async function unlockSlots(
  slots: KeySlots,
  context: Pick<UnlockContext, "engine" | "password" | "signal">,
  at: Location,
  labels: WrappingLabels,
): Promise<WrappingKeys> {
  const { engine, signal } = context;
  const secret = await askPassword(at, context.password);
  try {
    const wrapping = await deriveWrappingKeys(engine, secret, slots.salt, { labels, signal });
    try {
      const opened = judgeSlots(await openSlots(engine, slots, wrapping), at);
      if (opened !== undefined) return opened;
      throw wrongPassword(at);
    } finally {
      wipe(wrapping.master, wrapping.mac);
    }
  } finally {
    wipe(secret);
  }
}

async function openSlots(engine: Engine, slots: KeySlots, wrapping: WrappingKeys): Promise<OpenedSlots> {
  const aes = await engine.aes();
  const mac = await aes.unwrapKey(wrapping.mac, slots.wrappedMacKey);
  return { mac, master: await aes.unwrapKey(wrapping.master, slots.wrappedMasterKey) };
}

/** A secret for the file, which the caller wipes; undefined if there is none. */
async function answerOf(source: PasswordSource | undefined, at: Location): Promise<Bytes | undefined> {
  return source?.(at.source);
}

/** The password for the file; the caller wipes it. Throws `usage/password.missing` if there is none. */
export async function askPassword(at: Location, password?: PasswordSource): Promise<Bytes> {
  const secret = await answerOf(password, at);
  if (secret !== undefined) return secret;
  throw missingPassword(at);
}

interface OpenedSlots {
  readonly mac: Bytes | undefined;
  readonly master: Bytes | undefined;
}

/**
 * Each wrapped key has a check of 64 bits: one that opens proves the password, even if the other does not open.
 * Undefined if neither does.
 */
function judgeSlots({ mac, master }: OpenedSlots, at: Location): WrappingKeys | undefined {
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
  return undefined;
}

function wrongPassword(at: Location): UsageError {
  return new UsageError(
    "usage/password.wrong",
    `Cannot open "${at.source}": the password is wrong, or the salt or both wrapped keys of its header are damaged`,
    { ...at, offset: FIELDS.salt.offset },
    {
      hint: `Check the password; a vault inside another has its own. If it is certain, the header is damaged. ${OTHER_NAME}`,
    },
  );
}

function wrongKeyFile(at: Location): UsageError {
  const message = `Cannot open "${at.source}": no key slot of it was made for the key file`;
  const hint = "Pass another key file with the option keyFile, or the option password";
  return new UsageError("usage/password.wrong", message, { ...at, offset: FIELDS.salt.offset }, { hint });
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
