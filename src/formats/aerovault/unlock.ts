import type { Bytes } from "../../base/bytes.ts";
import { IntegrityError, type Location, UsageError } from "../../base/errors.ts";
import type { EncryptionRule, PasswordSource } from "../../model/format.ts";
import { equalSecrets } from "../../primitives/crypto/hmac.ts";
import { wipe } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { StoredHeader } from "./header.ts";
import {
  completeKeys,
  deriveWrappingKeys,
  headerMac,
  type KeySlots,
  plainKeys,
  type VaultKeys,
  type WrappingKeys,
  type WrappingLabels,
  wipeKeys,
} from "./keys.ts";
import { MAC_OFFSET, PLAINTEXT_FLAG } from "./layout.ts";

/** Where the flag of the plaintext lane stands. */
const FLAGS_OFFSET = 11;
/** Where the part of the header begins that a password opens. */
const SALT_OFFSET = 12;

/** Who is asked, and what computes. */
export interface UnlockContext {
  readonly engine: Engine;
  readonly password?: PasswordSource | undefined;
  readonly encryption?: EncryptionRule | undefined;
  /** Called once, when nothing but the derivation of keys is left to wait for: it takes long, and other threads do it. */
  readonly meanwhile?: (() => void) | undefined;
}

/**
 * The keys of a vault, and proof that its header is the one that was written. `usage/password.wrong` and
 * `integrity/aerovault.header` are told apart as far as the two wrapped keys give evidence (docs/formats/aerovault.md#keys).
 */
export async function unlock(header: StoredHeader, context: UnlockContext, at: Location): Promise<VaultKeys> {
  const isPlain = (header.values.flags & PLAINTEXT_FLAG) !== 0;
  const { salt, wrappedMasterKey, wrappedMacKey } = header.values;
  const isBlank = [salt, wrappedMasterKey, wrappedMacKey].every((bytes) => bytes.every((byte) => byte === 0));
  if (isBlank && !isPlain) {
    // No writer makes such slots for an encrypted vault: the flag of the plaintext lane was lost.
    throw damagedHeader(
      "the key slots must hold keys, found zeros where flags say that the vault is encrypted",
      at,
      11,
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

async function unlockVault(slots: KeySlots, context: UnlockContext, at: Location): Promise<VaultKeys> {
  const keys = await unlockSlots(slots, context, at);
  return completeKeys(context.engine, { lane: "encrypted", ...keys });
}

/** The two keys that a password opens, in any version that wraps them so; whoever gets them wipes them. */
export async function unlockSlots(
  slots: KeySlots,
  context: UnlockContext,
  at: Location,
  labels?: WrappingLabels,
): Promise<WrappingKeys> {
  const { engine } = context;
  const secret = await askPassword(at, context.password);
  try {
    const wrapping = await deriveWrappingKeys(engine, secret, slots.salt, { labels, onBegin: context.meanwhile });
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

/** What opens the file; the caller wipes it. `usage/password.missing` where there is none to give. */
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

/** Each wrapped key carries a check of 64 bits: one that opens proves the password, whatever the other says. */
function judgeSlots({ mac, master }: OpenedSlots, at: Location): WrappingKeys {
  if (mac !== undefined && master !== undefined) return { master, mac };
  wipe(mac, master);
  if (mac !== undefined) throw damagedHeader("the password is right, but the wrapped master key is damaged", at, 44);
  if (master !== undefined) throw damagedHeader("the password is right, but the wrapped MAC key is damaged", at, 84);
  throw new UsageError(
    "usage/password.wrong",
    `Cannot open "${at.source}": the password is wrong, or the salt or both wrapped keys of its header are damaged`,
    { ...at, offset: SALT_OFFSET },
    { hint: "Where the password is certain, get another copy of the vault" },
  );
}

export function damagedHeader(problem: string, at: Location, offset: number): IntegrityError {
  const message = `Cannot trust the header of the vault: ${problem}`;
  const hint = "Get another copy of the vault";
  return new IntegrityError("integrity/aerovault.header", message, { ...at, offset }, { hint });
}

function unencrypted(at: Location): UsageError {
  const message = `Cannot open "${at.source}" with a password: it is a vault without encryption, which anybody could have put there`;
  const hint = "Where it is meant to have none, pass no password, or --no-encryption with it";
  return new UsageError("usage/vault.unencrypted", message, { ...at, offset: FLAGS_OFFSET }, { hint });
}

function missingPassword(at: Location): UsageError {
  const hint = "Pass --password-file FILE, or set TARE_PASSWORD_FILE, TARE_PASSWORD_COMMAND or TARE_PASSWORD";
  const place = { ...at, offset: SALT_OFFSET };
  return new UsageError("usage/password.missing", `Cannot open "${at.source}" without a password`, place, { hint });
}
