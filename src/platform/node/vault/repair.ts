import { isTareError } from "../../../base/errors.ts";
import { VaultArchive } from "../../../formats/aerovault/archive.ts";
import { healedWarning } from "../../../formats/aerovault/open.ts";
import { closeVault, type Vault } from "../../../formats/aerovault/vault.ts";
import type { OpenContext } from "../../../model/format.ts";
import type { HealContext } from "../../../operations/vault/heal-blocks.ts";
import { recoverVault } from "../../../operations/vault/recover.ts";
import { planVaultRepair, type VaultRepair } from "../../../operations/vault/repair.ts";
import { checkInputsKept } from "../files/output-place.ts";
import { repairCopy, repairInPlace } from "../files/repair.ts";
import { type OpenFileOptions, openFile } from "../files/source.ts";
import { recallForWriting, type VaultWriteContext, withVaultLock } from "./change.ts";
import { checkLockKept, whileAlone } from "./lock.ts";
import { type FoundSidecar, findVaultSidecar, realVault } from "./sidecar.ts";
import { checkVaultFile, checkWritable } from "./writable.ts";

/** A vault that may be damaged, and the plan to repair it. Valid until it is closed. */
export interface ExaminedVault {
  readonly vault: Vault;
  readonly repair: VaultRepair;
  readonly sidecar: FoundSidecar;
}

export interface ExamineOptions extends Pick<HealContext, "onProgress"> {
  /** The sidecar, if it is not beside the vault. */
  readonly sidecar?: string | undefined;
}

/** Opens a vault with every help, plans how to heal it, passes the plan to `use`, and cleans up. */
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
 * Opens a vault that cannot be opened as it is, by healing its header, its list of extensions or its end; blocks stay
 * as they are. Undefined if nothing helps. Its warnings list everything that was healed.
 */
export async function openHealedVault(path: string, context: OpenContext): Promise<VaultArchive | undefined> {
  const beside = await findVaultSidecar(path, context.engine);
  const file = await openBeside(path, {}, beside);
  let vault: Vault | undefined;
  try {
    const recovered = await recoverVault(file, context, beside.sidecar);
    vault = recovered.vault;
    const { engine, signal } = context;
    // A header from a sidecar counts only if the whole container supports it.
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
  /** "dry" examines and writes nothing. */
  readonly run: "dry" | "real";
  /** Where the healed vault goes, if not to the vault's own place. */
  readonly output?: string | undefined;
  readonly overwrite: "refuse" | "replace";
}

/** What a repair found and did. */
export interface RepairReport extends Omit<VaultRepair, "image" | "apply"> {
  readonly repaired: boolean;
  /** Why the sidecar beside the vault did not help, if there is one. */
  readonly sidecarProblem: string | undefined;
}

/** Heals a vault in place, or a copy of it, under its lock. A vault that cannot be fully healed is left as it is. */
export async function repairVault(
  path: string,
  context: VaultWriteContext,
  options: RepairOptions,
): Promise<RepairReport> {
  const real = await realVault(path);
  await checkVaultFile(real, path);
  if (options.output !== undefined) await checkInputsKept(options.output, [{ path, kind: "vault" }]);
  const work = (): Promise<RepairReport> => examineAndRepair(real, path, context, options);
  // A repair into a copy only reads the vault.
  if (options.output !== undefined)
    return options.run === "dry" ? work() : withVaultLock(real, path, context, work, "read");
  if (options.run === "real") return withVaultLock(real, path, context, work);
  await checkWritable(real, path);
  return work();
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
    const guardedRepair: VaultRepair = {
      ...repair,
      apply: (write) =>
        repair.apply((patch) => {
          checkLockKept(real, path);
          return write(patch);
        }),
    };
    if (isWritten && output === undefined) await whileAlone(real, path, () => repairInPlace(real, file, guardedRepair));
    else if (isWritten && output !== undefined) await repairCopy(real, file, repair, { output, overwrite });
    return { ...report, repaired: isWritten && repair.state === "damaged" };
  });
}
