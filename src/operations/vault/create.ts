import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { VaultCipher } from "../../formats/aerovault/cipher.ts";
import { parityRows } from "../../formats/aerovault/extensions/rows.ts";
import {
  EMPTY_SLOTS,
  MIN_PASSWORD_BYTES,
  makeKeys,
  plainKeys,
  SALT_BYTES,
  type VaultKeys,
  wipeKeys,
  wrapKeys,
} from "../../formats/aerovault/keys.ts";
import { VaultEdit } from "../../formats/aerovault/write/edit.ts";
import { checkBounds, type VaultSettings } from "../../formats/aerovault/write/profiles.ts";
import type { SealedVault } from "../../formats/aerovault/write/seal/seal.ts";
import type { VaultDraft } from "../../formats/aerovault/write/state.ts";
import { type EditHost, emptyManifest, newVaultState } from "../../formats/aerovault/write/state.ts";
import { clampParity } from "../../model/parity/avec.ts";
import { findPasswordFault } from "../../primitives/crypto/secrets.ts";

export interface CreateOptions {
  readonly settings: VaultSettings;
  /** Absent for the plaintext lane. The caller keeps it and wipes it. */
  readonly password?: Bytes | undefined;
  /** Percentage of parity inside the vault; none if absent. */
  readonly parityPercent?: number | undefined;
  /** Adds contents before the vault is sealed; it stays empty if absent. The keys belong to the vault. */
  readonly fill?: ((edit: VaultEdit, keys: VaultKeys) => Promise<void>) | undefined;
}

/** Seals a new vault into a draft. `use` gets the keys before they are wiped. */
export async function createVault(
  draft: VaultDraft,
  { settings, password, parityPercent, fill }: CreateOptions,
  host: EditHost,
  use?: (keys: VaultKeys, sealed: SealedVault) => Promise<void>,
): Promise<SealedVault> {
  const { engine, random } = host;
  const { label } = draft;
  checkBounds(settings.bounds, label);
  if (password !== undefined) checkNewPassword(password, label);
  // In the order in which the reference draws them: salt, master key, MAC key (docs/formats/aerovault.md#writing).
  const salt = password === undefined ? undefined : random(SALT_BYTES);
  const keys = password === undefined ? plainKeys() : await makeKeys(engine, random);
  const cipher = await VaultCipher.create(engine, keys);
  try {
    const slots =
      password === undefined || salt === undefined
        ? EMPTY_SLOTS
        : await wrapKeys(engine, keys, password, { salt, signal: host.signal });
    const percent = parityPercent === undefined ? undefined : clampParity(parityPercent);
    const manifest = emptyManifest(keys.lane, settings, { now: host.now(), parityPercent: percent });
    const extensions = percent === undefined ? [] : parityRows(0, 0);
    const state = newVaultState(label, { keys, slots, manifest, extensions });
    const edit = new VaultEdit({ state, draft, cipher, host, layout: "rewrite" });
    await fill?.(edit, keys);
    host.signal?.throwIfAborted();
    const sealed = await edit.seal();
    await use?.(keys, sealed);
    return sealed;
  } finally {
    cipher.wipe();
    wipeKeys(keys);
  }
}

/** The format's own rule, in bytes and not in characters (docs/formats/aerovault.md#writing). */
export function checkNewPassword(password: Bytes, label: string): void {
  const isShort = password.byteLength < MIN_PASSWORD_BYTES;
  const fault = isShort ? `must have ${MIN_PASSWORD_BYTES} bytes or more` : findPasswordFault(password);
  if (fault === undefined) return;
  const hint = isShort ? "A few words are easy to remember and hard to guess" : "Save the file as UTF-8 without a mark";
  throw new UsageError("usage/vault.password", `Cannot use the password: ${fault}`, { source: label }, { hint });
}
