import { stat } from "node:fs/promises";
import { isTareError } from "../../base/errors.ts";
import { healedWarning } from "../../formats/aerovault/open.ts";
import { closeVault, type Vault } from "../../formats/aerovault/vault.ts";
import { VaultArchive } from "../../formats/aerovault/vault-archive.ts";
import type { OpenContext } from "../../model/format.ts";
import type { HealContext } from "../../operations/vault/heal-blocks.ts";
import { recoverVault } from "../../operations/vault/recover.ts";
import { planVaultRepair, type VaultRepair } from "../../operations/vault/repair.ts";
import { type OpenFileOptions, openFile } from "./file-source.ts";
import { lockInode } from "./inode-lock.ts";
import { checkInputsKept } from "./output-place.ts";
import { repairCopy, repairInPlace } from "./repair-file.ts";
import { lockedElsewhere } from "./vault-lock.ts";
import { type FoundSidecar, findVaultSidecar, realVault } from "./vault-sidecar.ts";
import { recallForWriting, type VaultWriteContext, withVaultLock } from "./vault-writer.ts";

/** A vault that may be damaged, and what can be done about it. Valid until it is closed. */
export interface ExaminedVault {
  readonly vault: Vault;
  readonly repair: VaultRepair;
  readonly sidecar: FoundSidecar;
}

export interface ExamineOptions extends Pick<HealContext, "onProgress"> {
  /** The sidecar, where it is not beside the vault. */
  readonly sidecar?: string | undefined;
}

/** Opens a vault by whatever helps, finds out how to heal it, lets `use` see that, and puts everything away. */
export async function examineVault<T>(
  path: string,
  context: VaultWriteContext,
  options: ExamineOptions,
  use: (examined: ExaminedVault, file: Awaited<ReturnType<typeof openFile>>) => Promise<T>,
): Promise<T> {
  const { engine, limits, password, encryption, signal } = context;
  const real = await realVault(path);
  const beside = await findVaultSidecar(real, engine, options.sidecar);
  const file = await openBeside(real, { label: path }, beside);
  let vault: Vault | undefined;
  try {
    const recovered = await recoverVault(file, { engine, limits, password, encryption, signal }, beside.sidecar);
    vault = recovered.vault;
    await recallForWriting(vault, path, context);
    const healing = { engine, signal, onProgress: options.onProgress };
    const repair = await planVaultRepair(recovered, beside.sidecar, healing);
    return await use({ vault, repair, sidecar: beside }, file);
  } finally {
    if (vault !== undefined) await closeVault(vault);
    await file.close();
    await beside.close();
  }
}

/** Opens the file of a vault whose sidecar is open already. */
function openBeside(path: string, options: OpenFileOptions, beside: FoundSidecar): ReturnType<typeof openFile> {
  return openFile(path, options).catch(async (error: unknown) => {
    await beside.close();
    throw error;
  });
}

/**
 * A vault that cannot be opened as it is, opened by what heals its header, its list of extensions or its end; blocks are as
 * they are. Undefined where nothing helps. Everything that was healed is among its warnings.
 */
export async function openHealedVault(path: string, context: OpenContext): Promise<VaultArchive | undefined> {
  const beside = await findVaultSidecar(path, context.engine);
  const file = await openBeside(path, {}, beside);
  let vault: Vault | undefined;
  try {
    const recovered = await recoverVault(file, context, beside.sidecar);
    vault = recovered.vault;
    const { engine, signal } = context;
    // A header from a sidecar counts only with the whole container behind it.
    const proven =
      recovered.proof === "own" ||
      (await planVaultRepair(recovered, beside.sidecar, { engine, signal })).state !== "lost";
    if (proven && recovered.parts.length > 0) {
      const own = recovered.parts.filter(({ name }) => name !== "manifest");
      const warnings = [...own.map((part) => healedWarning(part, path)), ...vault.warnings];
      return new VaultArchive({ ...vault, warnings, healed: recovered.parts });
    }
    await closeVault(vault);
    return undefined;
  } catch (error) {
    if (vault === undefined) await file.close();
    else await closeVault(vault);
    if (isTareError(error) && !/^usage\/password\./.test(error.code)) return undefined;
    throw error;
  } finally {
    await beside.close();
  }
}

export interface RepairOptions extends ExamineOptions {
  /** "dry" finds out and writes nothing. */
  readonly run: "dry" | "real";
  /** Where the healed vault goes, where that is not the vault's own place. */
  readonly output?: string | undefined;
  readonly overwrite: "refuse" | "replace";
}

/** What a repair found and did. */
export interface RepairReport extends Omit<VaultRepair, "image" | "apply"> {
  readonly repaired: boolean;
  /** Why the sidecar beside the vault was of no use, where there is one. */
  readonly sidecarProblem: string | undefined;
}

/** Heals a vault in its place, or a copy of it, under its lock. A vault that cannot be healed as a whole is left as it is. */
export async function repairVault(
  path: string,
  context: VaultWriteContext,
  options: RepairOptions,
): Promise<RepairReport> {
  const real = await realVault(path);
  if (options.output !== undefined) await checkInputsKept(options.output, [{ path, kind: "vault" }]);
  if (options.run === "dry") return examineAndRepair(real, path, context, options);
  return withVaultLock(real, path, context, () => examineAndRepair(real, path, context, options));
}

function examineAndRepair(
  real: string,
  path: string,
  context: VaultWriteContext,
  options: RepairOptions,
): Promise<RepairReport> {
  const { run, output, overwrite } = options;
  return examineVault(path, context, options, async ({ repair, sidecar }, file) => {
    const { image: _image, apply: _apply, ...facts } = repair;
    const report = { ...facts, sidecarProblem: sidecar.problem };
    const isWritten =
      run === "real" && (repair.state === "damaged" || (repair.state === "intact" && output !== undefined));
    if (isWritten && output === undefined) await alone(real, path, () => repairInPlace(real, file, repair));
    else if (isWritten && output !== undefined) await repairCopy(real, file, repair, { output, overwrite });
    return { ...report, repaired: isWritten && repair.state === "damaged" };
  });
}

/** Runs what writes into a vault in its place, where nobody else does under another name of the file. */
async function alone(real: string, label: string, use: () => Promise<void>): Promise<void> {
  const lock = await lockInode(await stat(real, { bigint: true }));
  if (lock === "taken") throw lockedElsewhere(label);
  try {
    await use();
  } finally {
    if (lock !== "unknown") await lock.release();
  }
}
