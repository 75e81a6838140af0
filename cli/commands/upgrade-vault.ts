import type { Bytes } from "../../src/base/bytes.ts";
import { UsageError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import { isS3Url } from "../../src/bytes/s3/address.ts";
import { type Profile, profileSettings } from "../../src/formats/aerovault/write/profiles.ts";
import type { Archive } from "../../src/model/archive.ts";
import type { AddInput } from "../../src/operations/vault/inputs.ts";
import type { Context } from "../context.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { overwriteOf } from "../output-target.ts";
import { formatSize, plural } from "../render/sizes.ts";
import { writeContext } from "./vault/change.ts";

export interface VaultUpgrade {
  readonly label: string;
  readonly path: string;
  readonly profile: Profile;
  readonly newPasswordFile: string | undefined;
}

/** Writes a vault of version 3 with what an older one holds, and compares the two before the new one gets its name. */
export async function upgradeVault(context: Context, old: Archive, upgrade: VaultUpgrade): Promise<ExitCode> {
  const { checkUpgradable, provePassword, upgradeInputs } = await import("../../src/operations/vault/upgrade.ts");
  const { label, path } = upgrade;
  checkUpgradable(old, label);
  await checkPath(label, path);
  await provePassword(old);
  const { findTensors } = await import("../../src/platform/node/vault-input.ts");
  const writing = await writeContext(context);
  const inputs = upgradeInputs(old, async (source) => ({
    source,
    tensors: await findTensors(source, writing),
    checkUnchanged: async () => undefined, // comparing the two vaults tells
    close: () => source.close(),
  }));
  const password = await newPassword(context, upgrade);
  try {
    const dryRun = context.flags["dry-run"] === true;
    const byteLength = dryRun ? 0 : await write(context, old, { ...upgrade, inputs, password });
    const files = old.entries.filter(({ type }) => type === "file").length;
    const what = `${plural(files, "file")} from version ${old.version ?? "?"}`;
    await context.show({
      json: () => ({
        format: "aerovault",
        dryRun,
        files: [{ path, byteLength }],
        byteLength,
        entryCount: old.entries.length,
        notes: [],
        losses: [],
      }),
      text: () =>
        dryRun
          ? `would write ${printable(path)}: AeroVault 3, ${what}`
          : `wrote ${printable(path)}: AeroVault 3, ${what}, ${formatSize(byteLength)}; every entry was compared`,
    });
  } finally {
    password.fill(0);
  }
  return EXIT.success;
}

/** A vault is a file on disk, and never the old one: with --force that would be gone. */
async function checkPath(label: string, path: string): Promise<void> {
  const { refuseVaultPath } = await import("../../src/platform/node/output-place.ts");
  await refuseVaultPath(path, "a vault");
  const { fileIdentity } = await import("../../src/platform/node/vault-tree.ts");
  const [from, to] = [fileIdentity(label), fileIdentity(path)];
  const isSame = from !== undefined && from.device === to?.device && from.inode === to.inode;
  if (!isSame && path !== "-" && !isS3Url(path)) return;
  const problem = isSame ? "the new vault must be another file" : "the new vault must be a file on disk";
  const message = `Cannot upgrade "${label}" to "${path}": ${problem}`;
  throw new UsageError("usage/arguments", message, { source: "command line" });
}

interface VaultWriting extends VaultUpgrade {
  readonly inputs: readonly AddInput[];
  readonly password: Bytes;
}

async function write(context: Context, old: Archive, writing: VaultWriting): Promise<number> {
  const [{ createVaultFile }, { addToVault }, { sealSetup }, { sealRunner, isWorthWorkers }] = await Promise.all([
    import("../../src/platform/node/vault-create.ts"),
    import("../../src/operations/vault/add.ts"),
    import("../../src/operations/vault/seal-setup.ts"),
    import("../../src/platform/node/vault-runner.ts"),
  ]);
  const { path, profile, inputs, password } = writing;
  const vaultContext = await writeContext(context);
  const { engine, signal } = vaultContext;
  const settings = profileSettings(profile);
  const work = { byteLength: old.entries.reduce((sum, { size }) => sum + size, 0), files: inputs.length };
  if (isWorthWorkers(work)) engine.expect?.(Number.MAX_SAFE_INTEGER);
  const progress = context.progress({ label: "upgrading", total: 2 * work.byteLength });
  const onProgress = (byteLength: number): void => progress.add(byteLength);
  const sealed = await createVaultFile(
    path,
    {
      overwrite: overwriteOf(context),
      settings,
      password,
      async fill(edit, keys) {
        const runner = sealRunner({ engine, ...work, signal, isKnown: (id) => edit.has(id) });
        const setup = await sealSetup(engine, settings, { keys, chunker: "keyed", label: path });
        await addToVault(edit, inputs, { engine, runner, setup, signal, onProgress });
      },
      async check(source) {
        const [{ openAerovault }, { checkUpgraded }] = await Promise.all([
          import("../../src/formats/aerovault/open.ts"),
          import("../../src/operations/vault/upgrade.ts"),
        ]);
        // By the password, as whoever opens it next: that it fits is part of what is checked.
        const fresh = await openAerovault(source, { ...vaultContext, password: async () => password.slice() });
        try {
          await checkUpgraded(old, fresh, { signal, onProgress });
        } finally {
          await fresh.close();
        }
      },
    },
    vaultContext,
  );
  progress.end();
  return sealed.byteLength;
}

/** The old vault's, unless another one is asked for. */
async function newPassword(context: Context, { label, newPasswordFile }: VaultUpgrade): Promise<Bytes> {
  const [{ readPassword, withPasswordFile }, { checkNewPassword }] = await Promise.all([
    import("../password.ts"),
    import("../../src/operations/vault/create.ts"),
  ]);
  const asking = newPasswordFile === undefined ? context : withPasswordFile(context, newPasswordFile);
  const password = await readPassword(asking, label, "open");
  if (password === undefined) {
    const hint = "Pass --password-file FILE, or --new-password-file FILE for another one";
    throw new UsageError("usage/password.missing", "Cannot upgrade without a password", { source: label }, { hint });
  }
  checkNewPassword(password, label);
  return password;
}
