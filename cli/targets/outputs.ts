import { lstat } from "node:fs/promises";
import type { Bytes } from "../../src/base/bytes.ts";
import { systemError, UsageError } from "../../src/base/errors.ts";
import { isS3Url } from "../../src/bytes/s3/address.ts";
import { parseS3Address, type S3Address, type S3Client } from "../../src/bytes/s3/open.ts";
import { existsError, type Output, type Sink } from "../../src/bytes/sink.ts";
import {
  checkInputsKept,
  findVaultPath,
  type KeepOptions,
  type VaultPath,
  vaultPathText,
} from "../../src/platform/node/files/output-place.ts";
import type { Privacy } from "../../src/platform/node/files/partial-files.ts";
import type { Overwrite } from "../../src/platform/node/files/sink.ts";
import type { Context } from "../context.ts";
import { BrokenPipe, type Terminal } from "../terminal/terminal.ts";
import { writeContext } from "./vault-context.ts";

/** The meaning of `--force` for a sink. */
export function overwriteOf(context: Context): Overwrite {
  return context.flags.force === true ? "replace" : "refuse";
}

/**
 * Refuses a path that exists, before any work is done; with --force only if the command reads that file, or if it is
 * write-protected. Sinks check again.
 */
export async function checkAbsent(context: Context, path: string, keep?: PlanOptions): Promise<void> {
  await checkNotInput(context, path, keep);
  const inside = isS3Url(path) ? undefined : await findVaultPath(path);
  if (inside !== undefined) return checkInsideVault(context, inside);
  if (context.flags.force === true) return isS3Url(path) ? undefined : checkReplaceable(path, keep);
  if (isS3Url(path)) return checkS3Absent(context, path);
  const existing = await lstat(path).catch(() => undefined);
  if (existing !== undefined) throw existsError(path);
}

/** Refuses what --force does not replace: a folder, a device, a write-protected file. */
export async function checkReplaceable(path: string, { links }: PlanOptions = {}): Promise<void> {
  const sinks = await import("../../src/platform/node/files/sink.ts");
  await sinks.checkReplaceable(path, links);
}

/** What may be replaced, and how. */
export interface PlanOptions extends KeepOptions {
  /** "replace" if a link in the place of the output is replaced, not followed. */
  readonly links?: "replace" | undefined;
}

/** Refuses to write over what the command reads. */
export async function checkNotInput(context: Context, path: string, keep?: KeepOptions): Promise<void> {
  if (path === "-" || isS3Url(path) || (await findVaultPath(path)) !== undefined) return;
  await checkDiskPath(context, path, keep);
}

/** The same for a path that is one on disk, even if it has `::` in it: beside a file of such a name, for example. */
export function checkDiskPath(context: Context, path: string, keep?: KeepOptions): Promise<void> {
  return checkInputsKept(path, context.inputs, keep);
}

/** An output inside a vault: opening the vault to write to it compares the names, so only a dry run does that here. */
async function checkInsideVault(context: Context, path: VaultPath): Promise<void> {
  const { checkVaultPlace } = await import("../../src/platform/node/vault/create.ts");
  await checkVaultPlace(path.vault);
  if (context.flags["dry-run"] === true && context.flags.force !== true) await checkVaultAbsent(context, path);
}

async function checkVaultAbsent(context: Context, path: VaultPath): Promise<void> {
  const { container } = await context.open(path.vault);
  if (container.kind !== "archive" || container.entries.every((entry) => entry.path !== path.entry)) return;
  throw existsError(vaultPathText(path));
}

/** The value of -o, which this command requires. */
export function requireOutput(context: Context, what: string): string {
  const { output } = context.flags;
  if (output !== undefined) return output;
  throw new UsageError("usage/arguments", `Cannot run "${context.command}" without -o: must name ${what}`, {
    source: "command line",
  });
}

export interface OutputFileOptions extends KeepOptions {
  /** Most permission bits of a new file. */
  readonly newMode?: number | undefined;
  /** The file that the output must be as private as. */
  readonly like?: Privacy | undefined;
  /** If absent, as --force says. */
  readonly overwrite?: Overwrite | undefined;
  /** "disk" if the path was not typed as an output: it never means a file inside a vault. */
  readonly place?: "disk" | undefined;
  /** "replace" if a link in its place is replaced, not followed: for names that the user did not type. */
  readonly links?: "replace" | undefined;
}

/** A file that appears when it is complete. */
export async function openOutputFile(
  context: Context,
  path: string,
  { newMode, like, overwrite = overwriteOf(context), inputs, place, links }: OutputFileOptions = {},
): Promise<Sink> {
  // Checked again, because the files of a model are known by now.
  await (place === "disk" ? checkDiskPath : checkNotInput)(context, path, { sidecars: "written", inputs });
  const inside = place === "disk" ? undefined : await findVaultPath(path);
  if (inside !== undefined) return (await vaultOutputOf(context, inside)).create(inside.entry.split("/").at(-1) ?? "");
  const { fileSink, abortAllSinks } = await import("../../src/platform/node/files/sink.ts");
  context.onExit(abortAllSinks);
  return fileSink(path, { overwrite, newMode, like, links });
}

/** Several files below one folder, which is created if it is missing. */
export async function openOutputFolder(
  context: Context,
  directory: string,
  name: string,
  { overwrite = overwriteOf(context), links }: Pick<OutputFileOptions, "overwrite" | "links"> = {},
): Promise<Output> {
  const [{ directoryOutput }, { abortAllSinks }] = await Promise.all([
    import("../../src/platform/node/files/directory.ts"),
    import("../../src/platform/node/files/sink.ts"),
  ]);
  context.onExit(abortAllSinks);
  // Only writing shows all files of some outputs. The command decides before whether a model may replace itself.
  const check = (path: string): Promise<void> => checkDiskPath(context, path, { inputs: "rewritten" });
  return directoryOutput(directory, name, { overwrite, check, links });
}

async function vaultOutputOf(context: Context, path: VaultPath): Promise<Output> {
  const { vaultOutput } = await import("../../src/platform/node/vault/output.ts");
  return vaultOutput(path, await writeContext(context), overwriteOf(context));
}

/** Refuses an existing object before any work is done. Sinks check again when they commit. */
async function checkS3Absent(context: Context, path: string): Promise<void> {
  const address = outputAddress(path);
  const existing = await (await s3ClientFor(context)).head(address, { signal: context.signal });
  if (existing !== undefined) throw existsError(address.label);
}

function outputAddress(path: string): S3Address {
  const address = parseS3Address(path);
  if (address.key !== "" && !address.key.endsWith("/")) return address;
  throw new UsageError("usage/s3.address", `Cannot write to "${address.label}": the key must name an object`, {
    source: address.label,
  });
}

/** A client that writes to the store that the environment names, by the global flags. */
export async function s3ClientFor(context: Context): Promise<S3Client> {
  const { timeout, retries, concurrency, offline } = context.flags;
  const { writingClient } = await import("../../src/platform/node/s3/client.ts");
  return writingClient({ engine: await context.engine(), env: context.env, timeout, retries, concurrency, offline });
}

/** Weights belong neither on a screen nor in a JSON document. */
export function checkStandardOutput(context: Context): void {
  if (context.flags.json === true) {
    throw new UsageError("usage/json-needs-output", "Cannot print JSON and bytes to the same place: --json needs -o", {
      source: "command line",
    });
  }
  if (!context.terminal.outIsTerminal) return;
  throw new UsageError(
    "usage/binary-to-terminal",
    "Cannot print bytes to a terminal",
    { source: "command line" },
    { hint: "Redirect them (> FILE), or name a file with -o; tare stats shows the values of tensors" },
  );
}

/**
 * Standard output as a Sink: bytes are visible as they come, as in any pipe, and cannot be taken back. If the reader
 * goes away, the file is incomplete, which is an error; the reader of a listing has merely seen enough.
 */
export function stdoutSink(terminal: Terminal): Sink {
  let position = 0;
  let written: Promise<void> = Promise.resolve();
  return {
    label: "standard output",
    get position() {
      return position;
    },
    append(bytes: Bytes): Promise<void> {
      position += bytes.byteLength;
      written = written.then(() => terminal.writeOut(bytes)).catch(undelivered);
      return written;
    },
    commit: () => written,
    abort: () => Promise.resolve(),
  };
}

function undelivered(error: unknown): never {
  if (!(error instanceof BrokenPipe)) throw error;
  const source = "standard output";
  throw systemError("EPIPE", `Cannot write to ${source}`, { source }, { cause: error });
}

/** Standard output for a writer of one file. */
export function stdoutOutput(terminal: Terminal, name: string): Output {
  return { label: "standard output", name, create: () => Promise.resolve(stdoutSink(terminal)) };
}
