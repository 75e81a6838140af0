import { startProgress } from "../../../../api/progress.ts";
import type { VaultPasswordResult } from "../../../../api/vault/results.ts";
import type { Bytes } from "../../../../base/bytes.ts";
import { wipeKeys } from "../../../../formats/aerovault/keys.ts";
import type { VaultState } from "../../../../formats/aerovault/write/state.ts";
import { checkNewPassword } from "../../../../operations/vault/create.ts";
import {
  checkEncrypted,
  keyNames,
  rekeyBlocks,
  reslot,
  restateUnderNewKeys,
  slotKeys,
} from "../../../../operations/vault/keys.ts";
import { wipe } from "../../../../primitives/crypto/secrets.ts";
import { changeVault } from "../change.ts";
import { renewingSidecar } from "./parity.ts";
import type { ChangeTarget } from "./target.ts";

/** What is refused for a vault without encryption. */
const ACTION = "change the password of";
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
    const exchange = async (): Promise<Ended> => {
      if (rekey === true) return exchangeKeys(target, ask);
      await exchangeSlots(target, ask);
      return [];
    };
    // A sidecar holds the key slots of the old password, so it must not outlive them.
    const { result: endedKeys } = await renewingSidecar(target, async () => (await ask()).slice(), exchange);
    return { vault, dryRun, changed: !dryRun, endedKeys };
  } finally {
    wipe(asked);
  }
}

type NewPassword = () => Promise<Bytes>;
/** Keys that open the vault no more. */
type Ended = VaultPasswordResult["endedKeys"];

/** Writes new key slots for the same keys: costs only a manifest. */
async function exchangeSlots({ vault, dryRun, context }: ChangeTarget, ask: NewPassword): Promise<void> {
  await changeVault(vault, context, {
    layout: "update",
    run: dryRun ? "dry" : undefined,
    sidecar: "renewed",
    apply: async (_, opened) => {
      checkEncrypted(opened, ACTION);
      const { signal } = context;
      const slots = await reslot(context.engine, opened.keys, await ask(), { signal });
      return { result: undefined, keys: { slots }, notes: [KEPT_KEY] };
    },
  });
}

/**
 * Makes new keys, and encrypts every block again with them. They cannot be wrapped for other passwords and keys than the
 * new one: so these end, and are named.
 */
async function exchangeKeys({ vault, dryRun, context, onProgress }: ChangeTarget, ask: NewPassword): Promise<Ended> {
  const { engine, signal } = context;
  const progress = startProgress({ label: "encrypting" }, onProgress);
  let state: VaultState | undefined;
  try {
    const { result } = await changeVault<Ended>(vault, context, {
      layout: "rewrite",
      run: dryRun ? "dry" : undefined,
      sidecar: "renewed",
      restate: async (opened) => {
        checkEncrypted(opened, ACTION);
        state = await restateUnderNewKeys(opened, engine, await ask(), signal);
        return state;
      },
      apply: async (edit, opened) => {
        checkEncrypted(opened, ACTION);
        const ended = slotKeys(opened);
        if (state === undefined) return { result: ended };
        await rekeyBlocks(opened, edit, { engine, keys: state.keys, signal, onProgress: progress.add });
        return { result: ended };
      },
    });
    progress.end();
    if (result.length > 0) {
      const text = `these keys ${dryRun ? "would open" : "open"} the vault no more: ${keyNames(result)}`;
      (context.onLoss ?? context.onNote)(text);
    }
    return result;
  } finally {
    if (state !== undefined) wipeKeys(state.keys);
  }
}
