import { stat, unlink } from "node:fs/promises";
import { isTareError, SourceError } from "../../../base/errors.ts";
import { SIDECAR_SUFFIX } from "../../../formats/aerocorrect/layout.ts";
import { readSidecar } from "../../../formats/aerocorrect/read.ts";
import type { Sidecar, SidecarPlan } from "../../../formats/aerocorrect/sidecar.ts";
import { gridOf } from "../../../formats/aerovault/extensions/rows.ts";
import { closeVault, type Vault } from "../../../formats/aerovault/vault.ts";
import type { PasswordSource } from "../../../model/format.ts";
import {
  AVEC_HEADER_BYTES,
  decodeAvecHeader,
  PARITY_LEVELS,
  type ParityGrid,
  parityGrid,
} from "../../../model/parity/avec.ts";
import { generateSidecar } from "../../../operations/correct.ts";
import { prepareExport } from "../../../operations/vault/parity.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { parityRunner } from "../engine/correct-runner.ts";
import { fileError } from "../errors.ts";
import { checkInputsKept } from "../files/output-place.ts";
import { privacyOf } from "../files/partial-files.ts";
import { checkOutput, type FileSinkOptions, fileSink, type Overwrite } from "../files/sink.ts";
import { changedError, hasFileChanged, openFile, openSidecarFile } from "../files/source.ts";
import { openToWrite, placeOfVault, recallForWriting, type VaultWriteContext, withVaultLock } from "./change.ts";
import { whileAlone } from "./lock.ts";
import { findVaultSidecar, vaultSidecarPath } from "./sidecar.ts";

export interface ExportOptions {
  readonly output: string;
  /** For other files than a sidecar of a vault, which is always renewed. */
  readonly overwrite: Overwrite;
  /** "replace" if a link in its place is replaced, not followed. */
  readonly links?: "replace" | undefined;
  /** "replace" if a sidecar of an earlier state must not stay, even a write-protected one. */
  readonly readOnly?: "replace" | undefined;
  /** "dry" only checks whether it could be written. */
  readonly run?: "dry" | undefined;
  /** The grid; if absent, that of the percentage that the vault records. */
  readonly grid?: ParityGrid | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * Writes the sidecar of a vault, under the vault's lock; a damaged vault is refused. The lock is needed because a
 * writer that began without a sidecar writes into gaps of the file, and the sidecar's facts about the whole file would
 * never match any state. What is at `output` is judged under the lock too: another export may just have put it there.
 */
export async function exportVaultParity(
  path: string,
  context: VaultWriteContext,
  options: ExportOptions,
): Promise<SidecarPlan> {
  const real = await placeOfVault(path, context);
  await checkInputsKept(options.output, [{ path, kind: "vault" }], { sidecars: "written" });
  const work = (): Promise<SidecarPlan> => exportAsItIs(real, path, context, options);
  return options.run === "dry" ? work() : whileSteady(real, path, context, work);
}

/** Runs `use` while no other process writes to the vault, under this name or another one of the file. */
function whileSteady<T>(real: string, label: string, context: VaultWriteContext, use: () => Promise<T>): Promise<T> {
  return withVaultLock(real, label, context, () => whileAlone(real, label, use), "read");
}

async function exportAsItIs(
  real: string,
  path: string,
  context: VaultWriteContext,
  { output, overwrite, links, readOnly, run, grid, onProgress }: ExportOptions,
): Promise<SidecarPlan> {
  const { engine, signal } = context;
  const source = await openFile(real, { label: path });
  let vault: Vault | undefined;
  try {
    vault = await openToWrite(source, context);
    await recallForWriting(vault, path, context);
    const publishing = await judgeOutput(output, { overwrite, links, readOnly }, engine);
    const parity = await prepareExport(vault, grid ?? gridOf(vault.manifest), { engine, signal, onProgress });
    if (run === "dry") return parity.plan;
    const sink = await fileSink(output, { ...publishing, like: await privacyOf(real) });
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

type Publishing = Pick<FileSinkOptions, "overwrite" | "links" | "readOnly">;

/**
 * How to publish the sidecar: one that is there is renewed, and a link to one is followed. Refuses any other file that
 * must not be replaced, before any work is done.
 */
async function judgeOutput(output: string, wanted: Publishing, engine: Engine): Promise<Publishing> {
  const publishing = (await isVaultSidecar(output, engine))
    ? ({ ...wanted, overwrite: "replace", links: "follow" } as const)
    : { ...wanted, links: wanted.links ?? "follow" };
  await checkOutput(output, publishing);
  return publishing;
}

/** A device or a pipe is no sidecar, and reading it might never end. */
async function isVaultSidecar(path: string, engine: Engine): Promise<boolean> {
  const found = (await isFile(path)) ? await findVaultSidecar(path, engine, path).catch(() => undefined) : undefined;
  await found?.close();
  return found?.sidecar !== undefined;
}

/** Also where a link leads to one. */
async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() === true;
}

/** What happened to the sidecar of a changed vault. */
export interface SidecarFate {
  readonly fate: "none" | "renewed" | "removed";
  /** The sidecar, beside the vault as it was named. */
  readonly sidecar: string;
}

/**
 * Makes the sidecar beside a vault again, with the same kind and grid, if there is one. A sidecar holds the header that
 * it was made of, and with it the key slots of an old password. If it cannot be made again, it is removed, whatever it
 * is and whatever the reason: the change is in place, and an abort or a callback that throws cannot take it back.
 */
export async function renewSidecar(
  path: string,
  context: VaultWriteContext,
  password: PasswordSource | undefined,
): Promise<SidecarFate> {
  const real = await placeOfVault(path, context);
  const output = `${real}${SIDECAR_SUFFIX}`;
  const sidecar = await vaultSidecarPath(path, real);
  const found = await peekSidecar(output, context);
  if (found === "nothing") return { fate: "none", sidecar };
  try {
    if (found === "damaged") throw changedError(output);
    const { kind, grid } = found;
    const anyway = { overwrite: "replace", readOnly: "replace" } as const;
    if (kind === "file") await whileSteady(real, path, context, () => renewFileSidecar(real, output, grid, context));
    else await exportVaultParity(real, { ...context, password }, { output, ...anyway, grid });
    return { fate: "renewed", sidecar };
  } catch {
    await unlink(output).catch((reason: unknown) => {
      throw sidecarKept(path, output, reason);
    });
    return { fate: "removed", sidecar };
  }
}

/** The change is already in place, and must not be repeated. */
function sidecarKept(path: string, sidecar: string, cause: unknown): unknown {
  const message = `The change of "${path}" is in place, but "${sidecar}", which is of the state before, could be neither made again nor removed`;
  const hint = "Remove it yourself: it holds the key slots of before. Do not repeat the change";
  const named = fileError(cause, message, { source: sidecar });
  if (!isTareError(named)) return named;
  return new SourceError("source/vault.sidecar-kept", named.message, { source: sidecar }, { hint, cause });
}

interface PeekedSidecar {
  readonly kind: Sidecar["kind"];
  readonly grid: ParityGrid;
}

/** What is there, without keeping it open; a folder is not a sidecar. */
async function peekSidecar(
  path: string,
  { engine }: VaultWriteContext,
): Promise<PeekedSidecar | "nothing" | "damaged"> {
  if (!(await isFile(path))) return "nothing";
  const source = await openSidecarFile(path, "beside").catch((error: unknown) => {
    // A file that cannot be read may well hold the old key slots.
    if (isTareError(error)) return error.code === "source/not-found" ? ("nothing" as const) : ("damaged" as const);
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
    // A file that does not even begin like a sidecar is another file of the user.
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
  try {
    const like = await privacyOf(real);
    const sink = await fileSink(output, { overwrite: "replace", readOnly: "replace", like });
    try {
      const runner = parityRunner(source, { engine, grid, signal });
      await generateSidecar(source, sink, { engine, grid, runner, signal });
      if (await hasFileChanged(source)) throw changedError(real);
      await sink.commit();
    } catch (error) {
      await sink.abort();
      throw error;
    }
  } finally {
    await source.close();
  }
}
