import { unlink } from "node:fs/promises";
import type { VaultKeyAddResult, VaultKeyRemoveResult } from "../../../../api/vault/results.ts";
import type { Bytes } from "../../../../base/bytes.ts";
import { isTareError } from "../../../../base/errors.ts";
import { encodeHex, encodeUtf8 } from "../../../../base/text.ts";
import { keyOfFile, newRecoveryKey, recoveryText } from "../../../../formats/aerovault/extensions/slots.ts";
import { KEY_FILE_BYTES } from "../../../../model/password.ts";
import { checkNewPassword } from "../../../../operations/vault/create.ts";
import { addKey, type ChangedKeys, checkNewKey, removeKey } from "../../../../operations/vault/keys.ts";
import { secureRandom, wipe } from "../../../../primitives/crypto/secrets.ts";
import { refuseAddress, refuseVaultPath } from "../../files/output-place.ts";
import { readNamedPath } from "../../files/reads.ts";
import { fileSink } from "../../files/sink.ts";
import { changeVault } from "../change.ts";
import { isAfterChange } from "../draft.ts";
import type { ChangeTarget } from "./target.ts";

const REVOKES_NOTHING =
  "removing a key revokes nothing for those who kept a copy of the vault, or its keys: the option rekey of a new password encrypts everything again";

/** Random bytes of a key file that is made. */
const NEW_KEY_BYTES = 32;
/** Read and write for the owner, nothing for others. */
const PRIVATE_MODE = 0o600;

/** A key that a vault is to get. */
export type WantedKey =
  | {
      readonly kind: "password";
      /** Asked for once the vault is open; wiped here. */
      readonly password: () => Promise<Bytes>;
    }
  | {
      readonly kind: "key-file";
      /** A path, where a file is made if there is none; or the bytes of one. */
      readonly file: string | Uint8Array;
    }
  | { readonly kind: "recovery" };

/** Gives a vault another password, a key file or a recovery key, besides what opens it. */
export async function addVaultKey(
  { vault, dryRun, context }: ChangeTarget,
  wanted: WantedKey,
  label: string | undefined,
): Promise<VaultKeyAddResult> {
  const { engine, signal } = context;
  if (wanted.kind === "key-file" && typeof wanted.file === "string") {
    refuseAddress(wanted.file, "none");
    await refuseVaultPath(wanted.file, "a key file");
  }
  let secret: NewSecret | undefined;
  try {
    const { result } = await changeVault<Pick<ChangedKeys, "key" | "keys">>(vault, context, {
      layout: "update",
      run: dryRun ? "dry" : undefined,
      apply: async (edit, opened) => {
        checkNewKey(opened, label);
        secret = await secretOf(wanted, { vault, run: dryRun ? "dry" : "real", signal });
        const fresh = { kind: wanted.kind, secret: secret.bytes, label };
        const { key, keys, ring } = await addKey(opened, fresh, {
          engine,
          random: secureRandom,
          now: edit.now,
          signal,
        });
        return { result: { key, keys }, keys: ring };
      },
    });
    const shown = secret?.recovery === undefined || dryRun ? {} : { recovery: secret.recovery };
    const made = secret?.made === undefined ? {} : { madeFile: secret.made };
    return { vault, dryRun, ...result.key, ...shown, ...made, keys: result.keys };
  } catch (error) {
    // A key file that opens nothing only looks like one.
    if (secret?.made !== undefined && !isAfterChange(error)) await unlink(secret.made).catch(() => undefined);
    throw error;
  } finally {
    wipe(secret?.bytes);
  }
}

interface NewSecret {
  readonly bytes: Bytes;
  readonly recovery?: string;
  /** The path of the key file that was made. */
  readonly made?: string;
}

interface Making {
  readonly vault: string;
  readonly run: "dry" | "real";
  readonly signal: AbortSignal | undefined;
}

async function secretOf(wanted: WantedKey, { vault, run, signal }: Making): Promise<NewSecret> {
  if (wanted.kind === "recovery") {
    const bytes = newRecoveryKey(secureRandom);
    return { bytes, recovery: recoveryText(bytes) };
  }
  if (wanted.kind === "password") {
    const bytes = await wanted.password();
    try {
      checkNewPassword(bytes, vault);
      return { bytes };
    } catch (error) {
      wipe(bytes);
      throw error;
    }
  }
  const { file } = wanted;
  if (typeof file !== "string") return { bytes: keyOfFile(new Uint8Array(file), { source: "newKeyFile" }) };
  const found = await readKeyFile(file, signal).catch((error: unknown) => {
    if (isTareError(error) && error.code === "source/not-found") return undefined;
    throw error;
  });
  try {
    if (found !== undefined) return { bytes: keyOfFile(found, { source: file }) };
  } finally {
    wipe(found);
  }
  const random = secureRandom(NEW_KEY_BYTES);
  const bytes = encodeUtf8(encodeHex(random));
  wipe(random);
  if (run === "dry") return { bytes };
  await writeKeyFile(file, bytes);
  return { bytes, made: file };
}

/** The bytes of a key file. The caller wipes them. */
export function readKeyFile(path: string, signal: AbortSignal | undefined): Promise<Bytes> {
  return readNamedPath(path, { option: "keyFile", maxBytes: KEY_FILE_BYTES }, signal);
}

/** It is on the disk before the vault asks for it. */
async function writeKeyFile(path: string, key: Bytes): Promise<void> {
  const sink = await fileSink(path, { overwrite: "refuse", newMode: PRIVATE_MODE });
  const line = new Uint8Array([...key, 0x0a]);
  try {
    await sink.append(line);
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  } finally {
    wipe(line);
  }
}

/** Takes a key of a vault out, by its id or label. */
export async function removeVaultKey(
  { vault, dryRun, context }: ChangeTarget,
  named: string,
): Promise<VaultKeyRemoveResult> {
  const { result } = await changeVault<Pick<ChangedKeys, "key" | "keys">>(vault, context, {
    layout: "update",
    run: dryRun ? "dry" : undefined,
    apply: async (_, opened) => {
      const { key, keys, ring } = removeKey(opened, named);
      return { result: { key, keys }, keys: ring, notes: [REVOKES_NOTHING] };
    },
  });
  return { vault, dryRun, removed: result.key, keys: result.keys };
}
