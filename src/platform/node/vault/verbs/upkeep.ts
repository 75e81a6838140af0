import { stat } from "node:fs/promises";
import { startProgress } from "../../../../api/progress.ts";
import type { RepairVaultResult, VaultCompactResult } from "../../../../api/vault/results.ts";
import { isTareError, type TareError, UsageError } from "../../../../base/errors.ts";
import type { LimitOverrides } from "../../../../base/limits.ts";
import { storedBytes } from "../../../../formats/aerovault/blocks/stream.ts";
import { isParityRow } from "../../../../formats/aerovault/extensions/rows.ts";
import { verifySealed } from "../../../../formats/aerovault/verify.ts";
import type { Finding } from "../../../../model/finding.ts";
import type { Report } from "../../../../operations/verify.ts";
import type { Engine } from "../../../../primitives/engine.ts";
import { openFile } from "../../files/source.ts";
import { changeVault, unusedRoom } from "../change.ts";
import { checkNewVault } from "../create.ts";
import { afterwards } from "../draft.ts";
import { repairVault } from "../repair.ts";
import { compareWithSidecar } from "../sidecar.ts";
import type { ChangeTarget } from "./target.ts";

export interface VaultRepairRequest {
  /** The sidecar, if it is not the file beside the vault. */
  readonly sidecar?: string | undefined;
  /** Where the healed vault goes, if not to the place of the damaged one. */
  readonly output?: string | undefined;
  readonly overwrite: "refuse" | "replace";
}

/** Heals a vault, or says what would be lost. */
export async function repairVaultFile(
  { vault, dryRun, context, onProgress }: ChangeTarget,
  { sidecar, output, overwrite }: VaultRepairRequest,
): Promise<RepairVaultResult> {
  if (output !== undefined) await checkNewVault(output, overwrite);
  const progress = startProgress({ label: "examining" }, onProgress);
  const run = dryRun ? "dry" : "real";
  const report = await repairVault(vault, context, { run, sidecar, output, overwrite, onProgress: progress.add });
  progress.end();
  const { sidecarProblem, ...facts } = report;
  const tell = async (): Promise<void> => {
    if (sidecarProblem !== undefined) (context.onLoss ?? context.onNote)(`${sidecarProblem}; it was not used`);
  };
  await (facts.repaired ? afterwards(vault, tell) : tell());
  return { vault, dryRun, output: output ?? null, ...facts };
}

/** Writes a vault again without what no entry uses. */
export async function compactVault({ vault, dryRun, context, onProgress }: ChangeTarget): Promise<VaultCompactResult> {
  const byteLengthBefore = (await stat(context.session?.real ?? vault).catch(() => undefined))?.size ?? 0;
  const progress = startProgress({ label: "compacting" }, onProgress);
  const { sealed, result } = await changeVault(vault, context, {
    layout: "rewrite",
    run: dryRun ? "dry" : undefined,
    onProgress: progress.add,
    apply: async (edit, opened) => {
      edit.dropUnreferenced();
      // Each block is copied, and where the vault has parity also compared with its hash and made parity of.
      if (!dryRun) progress.expect(storedBytes(edit.chunks.values()) * (opened.extensions.some(isParityRow) ? 3 : 1));
      return { result: unusedRoom(opened) };
    },
  });
  progress.end();
  const byteLength = sealed?.byteLength ?? byteLengthBefore - result;
  return { vault, dryRun, byteLengthBefore, byteLength, freedBytes: byteLengthBefore - byteLength };
}

/** What a check without the password can leave out. */
export type Unchecked = "manifest" | "blocks" | "contents";

export interface SealedReport extends Report {
  readonly notChecked: readonly Unchecked[];
}

export interface SealedScrub {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Checks a local vault of version 3 without the password. Throws `missing` if there is nothing to compare with: a
 * report without an error would suggest that the vault is sound.
 */
export async function scrubSealed(target: string, scrub: SealedScrub, missing: TareError): Promise<SealedReport> {
  const { engine, limits, signal } = scrub;
  const checked: Record<string, number> = {};
  const count = (what: string, by = 1): void => {
    checked[what] = (checked[what] ?? 0) + by;
  };
  const findings: Finding[] = [];
  // A URL, standard input or a vault inside another one: there is no such file.
  const source = await openFile(target, { signal }).catch(insteadOf("source/not-found", missing));
  try {
    for await (const finding of verifySealed(source, { level: "full", engine, limits, signal, count })) {
      findings.push(finding);
    }
    const doubts = await compareWithSidecar(source, target, { engine, signal, count });
    const notChecked = uncheckedOf(checked, doubts.length === 0);
    if (Object.keys(checked).length === 0) throw nothingToCompare(target, missing);
    findings.push(...doubts, sealedNote(target, notChecked));
    const ok = findings.every(({ severity }) => severity !== "error");
    return { ok, level: "control", weights: "not-compared", checked, notChecked, findings };
  } catch (error) {
    return insteadOf("unsupported/aerovault.older", missing)(error);
  } finally {
    await source.close();
  }
}

function insteadOf(code: TareError["code"], missing: TareError): (error: unknown) => never {
  return (error) => {
    throw isTareError(error) && error.code === code ? missing : error;
  };
}

function uncheckedOf(checked: Readonly<Record<string, number>>, isAsSidecarSays: boolean): readonly Unchecked[] {
  const isWhole = checked["sidecars"] !== undefined && isAsSidecarSays;
  const compared: Readonly<Record<Unchecked, boolean>> = {
    manifest: isWhole || checked["manifests"] !== undefined,
    blocks: isWhole || checked["shards"] !== undefined,
    contents: false, // only the key proves that they are what was stored
  };
  return (["manifest", "blocks", "contents"] as const).filter((part) => !compared[part]);
}

const UNCHECKED_TEXTS: Readonly<Record<Unchecked, string>> = {
  manifest: "the manifest",
  blocks: "the blocks",
  contents: "names, sizes and contents",
};

export function uncheckedText(notChecked: readonly Unchecked[]): string {
  return notChecked.map((part) => UNCHECKED_TEXTS[part]).join("; ");
}

function sealedNote(target: string, notChecked: readonly Unchecked[]): Finding {
  const message = `Without the password these were not checked: ${uncheckedText(notChecked)}`;
  const hint = "Do it again with the option password";
  return { severity: "note", code: "integrity/aerovault.sealed", message, at: { source: target, offset: 0 }, hint };
}

function nothingToCompare(target: string, { at, hint }: TareError): UsageError {
  const message = `Cannot check "${target}" without a password: there is no parity and no sidecar to compare it with, and only its header was read`;
  return new UsageError("usage/password.missing", message, at, { hint });
}
