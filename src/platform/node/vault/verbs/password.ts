import { startProgress } from "../../../../api/progress.ts";
import type { VaultPasswordResult } from "../../../../api/vault/results.ts";
import type { Bytes } from "../../../../base/bytes.ts";
import { UnsupportedError } from "../../../../base/errors.ts";
import { wipeKeys } from "../../../../formats/aerovault/keys.ts";
import type { Vault } from "../../../../formats/aerovault/vault.ts";
import type { VaultState } from "../../../../formats/aerovault/write/state.ts";
import { checkNewPassword } from "../../../../operations/vault/create.ts";
import { rekeyBlocks, reslot, restateUnderNewKeys } from "../../../../operations/vault/rekey.ts";
import { wipe } from "../../../../primitives/crypto/secrets.ts";
import { changeVault } from "../change.ts";
import { renewingSidecar } from "./parity.ts";
import type { ChangeTarget } from "./target.ts";

const KEPT_KEY =
  "the vault's own key is the same as before: an older copy of the vault opens with the old password still; the option rekey encrypts everything again";

/**
 * Gives a vault another password, or new keys too. The new password is asked for once the old one has opened the vault;
 * it is wiped here.
 */
export async function changeVaultPassword(
  target: ChangeTarget,
  newPassword: () => Promise<Bytes>,
  { rekey }: { readonly rekey?: boolean | undefined },
): Promise<VaultPasswordResult> {
  const { vault, dryRun } = target;
  let asked: Bytes | undefined;
  const ask = async (): Promise<Bytes> => {
    asked ??= await newPassword();
    checkNewPassword(asked, vault);
    return asked;
  };
  try {
    const exchange = (): Promise<void> => (rekey === true ? exchangeKeys(target, ask) : exchangeSlots(target, ask));
    // A sidecar holds the key slots of the old password, so it must not outlive them.
    await renewingSidecar(target, async () => (await ask()).slice(), exchange);
  } finally {
    wipe(asked);
  }
  return { vault, dryRun, changed: !dryRun };
}

type NewPassword = () => Promise<Bytes>;

/** Writes new key slots for the same keys: costs only a manifest. */
async function exchangeSlots({ vault, dryRun, context }: ChangeTarget, ask: NewPassword): Promise<void> {
  await changeVault(vault, context, {
    layout: "update",
    run: dryRun ? "dry" : undefined,
    sidecar: "renewed",
    apply: async (_, opened) => {
      checkEncrypted(opened);
      const { signal } = context;
      const slots = await reslot(context.engine, opened.keys, await ask(), { signal });
      return { result: undefined, slots, notes: [KEPT_KEY] };
    },
  });
}

/** Makes new keys, and encrypts every block again with them. */
async function exchangeKeys({ vault, dryRun, context, onProgress }: ChangeTarget, ask: NewPassword): Promise<void> {
  const { engine, signal } = context;
  const progress = startProgress({ label: "encrypting" }, onProgress);
  let state: VaultState | undefined;
  try {
    await changeVault(vault, context, {
      layout: "rewrite",
      run: dryRun ? "dry" : undefined,
      sidecar: "renewed",
      restate: async (opened) => {
        checkEncrypted(opened);
        state = await restateUnderNewKeys(opened, engine, await ask(), signal);
        return state;
      },
      apply: async (edit, opened) => {
        checkEncrypted(opened);
        if (state === undefined) return { result: undefined };
        await rekeyBlocks(opened, edit, { engine, keys: state.keys, signal, onProgress: progress.add });
        return { result: undefined };
      },
    });
    progress.end();
  } finally {
    if (state !== undefined) wipeKeys(state.keys);
  }
}

function checkEncrypted({ keys, source }: Vault): void {
  if (keys.lane === "encrypted") return;
  const message = `Cannot change the password of "${source.label}": it is not encrypted`;
  const hint = "Create an encrypted vault, and add what is in this one";
  throw new UnsupportedError("unsupported/vault.plain", message, { source: source.label }, { hint });
}
