import { startProgress } from "../../../../api/progress.ts";
import type { VaultParityResult } from "../../../../api/vault/results.ts";
import { UsageError } from "../../../../base/errors.ts";
import { printable } from "../../../../base/text.ts";
import { storedBytes } from "../../../../formats/aerovault/blocks/stream.ts";
import { DEFAULT_PARITY_PERCENT } from "../../../../formats/aerovault/extensions/rows.ts";
import type { Vault } from "../../../../formats/aerovault/vault.ts";
import type { VaultState } from "../../../../formats/aerovault/write/state.ts";
import type { PasswordSource } from "../../../../model/format.ts";
import { parityGrid } from "../../../../model/parity/avec.ts";
import { withoutParity, withParity } from "../../../../operations/vault/parity.ts";
import { checkInputsKept, type InputFile } from "../../files/output-place.ts";
import { changeVault } from "../change.ts";
import { afterwards, isAfterChange } from "../draft.ts";
import { exportVaultParity, renewSidecar, type SidecarFate } from "../parity.ts";
import { findVaultSidecar, vaultSidecarPath } from "../sidecar.ts";
import type { ChangeTarget } from "./target.ts";

export interface ExportParity {
  /** Where the sidecar goes, if not beside the vault. */
  readonly output?: string | undefined;
  /** How much; as the vault records if absent. */
  readonly percent?: number | undefined;
  readonly overwrite: "refuse" | "replace";
  /** Files that the caller reads, which the sidecar must not replace. */
  readonly inputs: readonly InputFile[];
}

/** Writes the sidecar of a vault: parity of header, manifest and blocks. */
export async function exportSidecar(
  { vault, dryRun, context, onProgress }: ChangeTarget,
  { output: named, percent, overwrite, inputs }: ExportParity,
): Promise<VaultParityResult> {
  const place = context.session?.real ?? vault;
  const output = named ?? (await vaultSidecarPath(vault, place));
  await checkInputsKept(output, inputs, { sidecars: "written" });
  const progress = startProgress({ label: "computing parity" }, onProgress);
  const { byteLength } = await exportVaultParity(vault, context, {
    output,
    overwrite,
    // A link to a sidecar is followed, and any other link in that place only if the user typed its name.
    links: named === undefined ? "replace" : undefined,
    run: dryRun ? "dry" : undefined,
    grid: percent === undefined ? undefined : parityGrid(percent),
    onProgress: progress.add,
  });
  progress.end();
  return { vault, action: "export", dryRun, sidecar: output, sidecarByteLength: byteLength };
}

/** Lets a vault carry parity; as much as it records, or 20 %, if nothing is said. */
export function embedVaultParity(target: ChangeTarget, percent: number | undefined): Promise<VaultParityResult> {
  const restate = async (opened: Vault): Promise<VaultState> =>
    withParity(opened, percent ?? opened.manifest.errorCorrectionPct ?? DEFAULT_PARITY_PERCENT);
  return change(target, "embed", restate);
}

/** Takes the parity out of a vault. Without a sidecar that needs "anyway": nothing else could heal the vault. */
export async function stripVaultParity(
  target: ChangeTarget,
  demand?: "anyway" | undefined,
): Promise<VaultParityResult> {
  const { vault, context } = target;
  const { engine } = context;
  const { sidecar, close } = await findVaultSidecar(context.session?.real ?? vault, engine);
  await close();
  if (sidecar === undefined && demand !== "anyway") {
    const message = `Cannot strip the parity of "${vault}": nothing else could heal it, as it has no sidecar`;
    const hint = "Run tare vault parity VAULT export first, or pass the option force";
    throw new UsageError("usage/vault.parity", message, { source: vault }, { hint });
  }
  return change(target, "strip", (opened) => withoutParity(opened, engine));
}

/** Changes only the extensions; afterwards makes the sidecar again if there is one. */
async function change(
  target: ChangeTarget,
  action: "embed" | "strip",
  restate: (vault: Vault) => Promise<VaultState>,
): Promise<VaultParityResult> {
  const { vault, dryRun, context } = target;
  const label = action === "embed" ? "computing parity" : "removing parity";
  const progress = startProgress({ label }, target.onProgress);
  const work = async (): Promise<number | null> => {
    const { sealed } = await changeVault(vault, context, {
      layout: "update",
      run: dryRun ? "dry" : undefined,
      restate,
      sidecar: "renewed",
      onProgress: progress.add,
      apply: async (edit) => {
        // Each block is compared with its hash, and made parity of.
        if (action === "embed" && !dryRun) progress.expect(2 * storedBytes(edit.chunks.values()));
        return { result: undefined };
      },
    });
    progress.end();
    return sealed?.byteLength ?? null;
  };
  const { result: byteLength, sidecarFate } = await renewingSidecar(target, context.password, work);
  return { vault, action, dryRun, byteLength, sidecarFate };
}

/**
 * Changes the key slots or extensions of a vault, then makes its sidecar again: also if the change is in place and only
 * what follows it has failed. `password` opens the vault after the change.
 */
export async function renewingSidecar<T>(
  target: ChangeTarget,
  password: PasswordSource | undefined,
  change: () => Promise<T>,
): Promise<{ readonly result: T; readonly sidecarFate: SidecarFate["fate"] }> {
  let result: T;
  try {
    result = await change();
  } catch (error) {
    if (isAfterChange(error)) await noteSidecar(target, password);
    throw error;
  }
  return { result, sidecarFate: target.dryRun ? "none" : await noteSidecar(target, password) };
}

/** Renews or removes the sidecar of a vault whose key slots or extensions were changed, and says so. */
async function noteSidecar(
  { vault, context }: ChangeTarget,
  password: PasswordSource | undefined,
): Promise<SidecarFate["fate"]> {
  return afterwards(vault, async () => {
    const { fate, sidecar } = await renewSidecar(vault, context, password);
    const name = printable(sidecar);
    if (fate === "renewed") context.onNote(`"${name}" was made again, because it was of the state before`);
    if (fate === "removed") {
      const text = `"${name}" was removed, because it was of the state before and could not be made again`;
      (context.onLoss ?? context.onNote)(text);
    }
    return fate;
  });
}
