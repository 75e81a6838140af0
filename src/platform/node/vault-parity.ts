import { stat, unlink } from "node:fs/promises";
import { isTareError, SourceError } from "../../base/errors.ts";
import { SIDECAR_SUFFIX } from "../../formats/aerocorrect/layout.ts";
import { readSidecar } from "../../formats/aerocorrect/read.ts";
import type { Sidecar, SidecarPlan } from "../../formats/aerocorrect/sidecar.ts";
import { openVault } from "../../formats/aerovault/open.ts";
import { gridOf } from "../../formats/aerovault/parity-grid.ts";
import { closeVault, type Vault } from "../../formats/aerovault/vault.ts";
import type { PasswordSource } from "../../model/format.ts";
import {
  AVEC_HEADER_BYTES,
  decodeAvecHeader,
  PARITY_LEVELS,
  type ParityGrid,
  parityGrid,
} from "../../model/parity/avec.ts";
import { generateSidecar } from "../../operations/correct.ts";
import { prepareExport } from "../../operations/vault/export-parity.ts";
import { parityRunner } from "./correct-runner.ts";
import { fileError } from "./errors.ts";
import { fileSink, type Overwrite } from "./file-sink.ts";
import { changedError, hasFileChanged, openFile } from "./file-source.ts";
import { lockInode } from "./inode-lock.ts";
import { checkInputsKept } from "./output-place.ts";
import { openSidecarFile } from "./sidecar-file.ts";
import { sidecarMode } from "./sidecar-mode.ts";
import { lockedElsewhere } from "./vault-lock.ts";
import { realVault } from "./vault-sidecar.ts";
import { recallForWriting, type VaultWriteContext, withVaultLock } from "./vault-writer.ts";

export interface ExportOptions {
  readonly output: string;
  readonly overwrite: Overwrite;
  /** "dry" finds out whether it could be written. */
  readonly run?: "dry" | undefined;
  /** That of the percentage that the vault records where absent. */
  readonly grid?: ParityGrid | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * Writes the sidecar of a vault, under the vault's lock; one that is damaged is refused. A writer that began without a
 * sidecar writes into gaps of the file, and what a sidecar says of the whole file would never be true of any state.
 */
export async function exportVaultParity(
  path: string,
  context: VaultWriteContext,
  options: ExportOptions,
): Promise<SidecarPlan> {
  const real = await realVault(path);
  await checkInputsKept(options.output, [{ path, kind: "vault" }], { sidecars: "written" });
  const work = (): Promise<SidecarPlan> => exportAsItIs(real, path, context, options);
  return options.run === "dry" ? work() : whileSteady(real, path, context, work);
}

/** Runs what reads a vault as a whole while nobody writes to it, under this name or another one of the file. */
function whileSteady<T>(real: string, label: string, context: VaultWriteContext, use: () => Promise<T>): Promise<T> {
  const alone = async (): Promise<T> => {
    const facts = await stat(real, { bigint: true }).catch((error: unknown) => {
      throw fileError(error, `Cannot look at "${label}"`, { source: label });
    });
    const lock = await lockInode(facts);
    if (lock === "taken") throw lockedElsewhere(label);
    try {
      return await use();
    } finally {
      if (lock !== "unknown") await lock.release();
    }
  };
  return withVaultLock(real, label, context, alone, "read");
}

async function exportAsItIs(
  real: string,
  path: string,
  context: VaultWriteContext,
  { output, overwrite, run, grid, onProgress }: ExportOptions,
): Promise<SidecarPlan> {
  const { engine, limits, password, encryption, signal } = context;
  const source = await openFile(real, { label: path });
  let vault: Vault | undefined;
  try {
    vault = await openVault(source, { engine, limits, password, encryption, signal });
    await recallForWriting(vault, path, context);
    const parity = await prepareExport(vault, grid ?? gridOf(vault.manifest), { engine, signal, onProgress });
    if (run === "dry") return parity.plan;
    const sink = await fileSink(output, { overwrite, newMode: await sidecarMode(real) });
    try {
      await parity.write(sink);
      if (await hasFileChanged(source)) throw changedError(path);
      await sink.commit();
      return parity.plan;
    } catch (error) {
      await sink.abort();
      throw error;
    }
  } finally {
    if (vault === undefined) await source.close();
    else await closeVault(vault);
  }
}

/** What became of the sidecar of a vault that was changed. */
export type SidecarFate = "none" | "renewed" | "removed";

/**
 * Makes the sidecar beside a vault anew, in its own kind and grid, where there is one. A sidecar holds the header it was
 * made of, and with it the key slots of an old password: where it cannot be made anew it is removed, whatever it is.
 */
export async function renewSidecar(
  path: string,
  context: VaultWriteContext,
  password: PasswordSource | undefined,
): Promise<SidecarFate> {
  const real = await realVault(path);
  const output = `${real}${SIDECAR_SUFFIX}`;
  const found = await peekSidecar(output, context);
  if (found === "nothing") return "none";
  try {
    if (found === "damaged") throw changedError(output);
    const { kind, grid } = found;
    if (kind === "file") await whileSteady(real, path, context, () => renewFileSidecar(real, output, grid, context));
    else await exportVaultParity(real, { ...context, password }, { output, overwrite: "replace", grid });
    return "renewed";
  } catch (error) {
    if (!isTareError(error)) throw error;
    await unlink(output).catch((reason: unknown) => {
      throw sidecarKept(path, output, reason);
    });
    return "removed";
  }
}

/** The change is in place by then, and is not to be made again. */
function sidecarKept(path: string, sidecar: string, cause: unknown): unknown {
  const message = `The change of "${path}" is in place, but "${sidecar}", which is of the state before, could be neither made anew nor removed`;
  const hint = "Remove it yourself: it holds the key slots of before. Do not repeat the change";
  const named = fileError(cause, message, { source: sidecar });
  if (!isTareError(named)) return named;
  return new SourceError("source/vault.sidecar-kept", named.message, { source: sidecar }, { hint, cause });
}

interface PeekedSidecar {
  readonly kind: Sidecar["kind"];
  readonly grid: ParityGrid;
}

/** What stands there, without keeping it open; a folder is no sidecar. */
async function peekSidecar(
  path: string,
  { engine }: VaultWriteContext,
): Promise<PeekedSidecar | "nothing" | "damaged"> {
  const source = await openSidecarFile(path, "beside").catch((error: unknown) => {
    // What may not be read may well hold the key slots of before.
    if (isTareError(error)) return error.code === "source/forbidden" ? ("damaged" as const) : ("nothing" as const);
    throw error;
  });
  if (typeof source === "string") return source;
  try {
    const { kind, segments } = await readSidecar(source, engine);
    const header = segments.find(({ avecHeader }) => avecHeader !== undefined)?.avecHeader;
    const plan = header?.byteLength === AVEC_HEADER_BYTES ? decodeAvecHeader(header) : undefined;
    return { kind, grid: plan?.grid ?? parityGrid(PARITY_LEVELS.medium) };
  } catch (error) {
    if (!isTareError(error)) throw error;
    // What does not even begin like a sidecar is something else that somebody keeps there.
    return error.code === "format/aerocorrect.front" ? "nothing" : "damaged";
  } finally {
    await source.close();
  }
}

async function renewFileSidecar(
  real: string,
  output: string,
  grid: ParityGrid,
  { engine, signal }: VaultWriteContext,
): Promise<void> {
  const source = await openFile(real);
  const sink = await fileSink(output, { overwrite: "replace", newMode: await sidecarMode(real) });
  try {
    const runner = parityRunner(source, { engine, grid, signal });
    await generateSidecar(source, sink, { engine, grid, runner, signal });
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  } finally {
    await source.close();
  }
}
