import { startProgress } from "../../../../api/progress.ts";
import type { Bytes } from "../../../../base/bytes.ts";
import { UsageError } from "../../../../base/errors.ts";
import { isS3Url } from "../../../../bytes/s3/address.ts";
import { openAerovault } from "../../../../formats/aerovault/open.ts";
import { type Profile, profileSettings } from "../../../../formats/aerovault/write/profiles.ts";
import type { Archive } from "../../../../model/archive.ts";
import { addToVault } from "../../../../operations/vault/add.ts";
import { checkNewPassword } from "../../../../operations/vault/create.ts";
import { sealSetup } from "../../../../operations/vault/sealing.ts";
import { checkUpgradable, checkUpgraded, provePassword, upgradeInputs } from "../../../../operations/vault/upgrade.ts";
import { refuseVaultPath } from "../../files/output-place.ts";
import { fileIdentity } from "../../files/source.ts";
import { findTensors } from "../adding/inputs.ts";
import { isWorthWorkers, sealRunner } from "../adding/runner.ts";
import { checkNewVault, createVaultFile } from "../create.ts";
import type { ChangeTarget } from "./target.ts";

export interface VaultUpgrade {
  /** The old vault, as the user named it. */
  readonly label: string;
  readonly profile: Profile;
  readonly overwrite: "refuse" | "replace";
  /** The password of the new vault, asked for once everything else is right; wiped afterwards. */
  readonly password: () => Promise<Bytes | undefined>;
}

/** What `tare upgrade --json` prints for a vault. */
export interface UpgradeVaultResult {
  readonly format: string;
  readonly dryRun: boolean;
  readonly files: readonly { readonly path: string; readonly byteLength: number }[];
  readonly byteLength: number;
  readonly entryCount: number;
  readonly notes: readonly string[];
  readonly losses: readonly { readonly name: string; readonly reason: string }[];
}

/**
 * Writes the content of an older vault as version 3, at the target's place, and compares the two before the new vault
 * gets its name.
 */
export async function upgradeVault(
  target: ChangeTarget,
  old: Archive,
  upgrade: VaultUpgrade,
): Promise<UpgradeVaultResult> {
  const { vault: path, dryRun, context, source } = target;
  const { label } = upgrade;
  checkUpgradable(old, label);
  await checkPath(label, path, source);
  await checkNewVault(path, upgrade.overwrite);
  await provePassword(old);
  const inputs = upgradeInputs(old, async (file) => ({
    source: file,
    tensors: await findTensors(file, context),
    checkUnchanged: async () => undefined, // comparing the two vaults shows it
    close: () => file.close(),
  }));
  const password = await requirePassword(upgrade);
  try {
    const byteLength = dryRun ? 0 : await write(target, old, { ...upgrade, inputs, secret: password });
    const files = [{ path, byteLength }];
    const entryCount = old.entries.length;
    return { format: "aerovault", dryRun, files, byteLength, entryCount, notes: [], losses: [] };
  } finally {
    password.fill(0);
  }
}

async function requirePassword({ label, password: ask }: VaultUpgrade): Promise<Bytes> {
  const password = await ask();
  if (password === undefined) {
    const hint = "Pass the option password, or the option newPassword for another one";
    throw new UsageError("usage/password.missing", "Cannot upgrade without a password", { source: label }, { hint });
  }
  checkNewPassword(password, label);
  return password;
}

/** A vault is a file on disk, and never the old one, which replacing would destroy. */
async function checkPath(label: string, path: string, source: string): Promise<void> {
  await refuseVaultPath(path, "a vault");
  const [from, to] = [fileIdentity(label), fileIdentity(path)];
  const isSame = from !== undefined && from.device === to?.device && from.inode === to.inode;
  if (!isSame && path !== "-" && !isS3Url(path)) return;
  const problem = isSame ? "the new vault must be another file" : "the new vault must be a file on disk";
  throw new UsageError("usage/arguments", `Cannot upgrade "${label}" to "${path}": ${problem}`, { source });
}

interface Writing extends Omit<VaultUpgrade, "password"> {
  readonly inputs: ReturnType<typeof upgradeInputs>;
  readonly secret: Bytes;
}

async function write(
  { vault: path, context, onProgress: tell }: ChangeTarget,
  old: Archive,
  { profile, inputs, secret, overwrite }: Writing,
): Promise<number> {
  const { engine, signal } = context;
  const settings = profileSettings(profile);
  const work = { byteLength: old.entries.reduce((sum, { size }) => sum + size, 0), files: inputs.length };
  if (isWorthWorkers(work)) engine.expect?.(Number.MAX_SAFE_INTEGER);
  const { add: onProgress, end } = startProgress({ label: "upgrading", total: 2 * work.byteLength }, tell);
  const file = {
    overwrite,
    settings,
    password: secret,
    async fill(...[edit, keys]: Parameters<NonNullable<Parameters<typeof createVaultFile>[1]["fill"]>>) {
      const runner = sealRunner({ engine, ...work, signal, isKnown: (id) => edit.has(id) });
      const setup = await sealSetup(engine, settings, { keys, chunker: "keyed", label: path });
      await addToVault(edit, inputs, { engine, runner, setup, signal, onProgress });
    },
    async check(source: Parameters<typeof openAerovault>[0]) {
      // Opens it by the password, as the next user will: this also checks that the password fits.
      const fresh = await openAerovault(source, { ...context, password: async () => secret.slice() });
      try {
        await checkUpgraded(old, fresh, { signal, onProgress });
      } finally {
        await fresh.close();
      }
    },
  };
  const sealed = await createVaultFile(path, file, context);
  end();
  return sealed.byteLength;
}
