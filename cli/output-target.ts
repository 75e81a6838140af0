import { lstat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { UsageError } from "../src/base/errors.ts";
import { isS3Url } from "../src/bytes/s3/address.ts";
import type { Output, Sink } from "../src/bytes/sink.ts";
import type { Overwrite } from "../src/platform/node/file-sink.ts";
import {
  checkInputsKept,
  findVaultPath,
  type KeepOptions,
  type VaultPath,
  vaultPathText,
} from "../src/platform/node/output-place.ts";
import type { Context } from "./context.ts";

/** What `--force` means to a sink. */
export function overwriteOf(context: Context): Overwrite {
  return context.flags.force === true ? "replace" : "refuse";
}

/**
 * Refuses a path that is taken, before any work is done for it: with --force only where the command reads what is there.
 * Sinks check again when they commit.
 */
export async function checkAbsent(context: Context, path: string, keep?: KeepOptions): Promise<void> {
  await checkNotInput(context, path, keep);
  if (context.flags.force === true) return;
  if (isS3Url(path)) return (await import("./s3-output.ts")).checkS3Absent(context, path);
  // Inside a vault: whoever opens it to write looks, before anything is written.
  const inside = await findVaultPath(path);
  if (inside !== undefined) return context.flags["dry-run"] === true ? checkVaultAbsent(context, inside) : undefined;
  const existing = await lstat(path).catch(() => undefined);
  if (existing === undefined) return;
  throw new UsageError(
    "usage/exists",
    `Cannot write "${path}": it exists already`,
    { source: path },
    {
      hint: "Choose another name, or pass --force",
    },
  );
}

/** Refuses to write over what the command reads. */
export async function checkNotInput(context: Context, path: string, keep?: KeepOptions): Promise<void> {
  if (path === "-" || isS3Url(path) || (await findVaultPath(path)) !== undefined) return;
  await checkInputsKept(path, context.inputs, keep);
}

async function checkVaultAbsent(context: Context, path: VaultPath): Promise<void> {
  const { container } = await context.open(path.vault);
  if (container.kind !== "archive" || container.entries.every((entry) => entry.path !== path.entry)) return;
  const source = vaultPathText(path);
  const hint = "Choose another name, or pass --force";
  throw new UsageError("usage/exists", `Cannot write "${source}": it exists already`, { source }, { hint });
}

/** The value of -o, which this command cannot do without. */
export function requireOutput(context: Context, what: string): string {
  const { output } = context.flags;
  if (output !== undefined) return output;
  throw new UsageError("usage/arguments", `Cannot run "${context.command}" without -o: must name ${what}`, {
    source: "command line",
  });
}

/** A file that appears when it is complete; one that is new has at most the permissions `newMode`, where they are given. */
export async function openOutputFile(context: Context, path: string, newMode?: number): Promise<Sink> {
  // Again: by now it is known which files a model is made of.
  await checkNotInput(context, path, { sidecars: "written" });
  const inside = await findVaultPath(path);
  if (inside !== undefined) return (await vaultOutputOf(context, inside)).create(inside.entry.split("/").at(-1) ?? "");
  const { fileSink, abortAllSinks } = await import("../src/platform/node/file-sink.ts");
  context.onExit(abortAllSinks);
  return fileSink(path, { overwrite: overwriteOf(context), newMode });
}

/** Several files below one folder, made where it is missing. */
export async function openOutputFolder(context: Context, directory: string, name: string): Promise<Output> {
  const [{ directoryOutput }, { abortAllSinks }] = await Promise.all([
    import("../src/platform/node/directory-output.ts"),
    import("../src/platform/node/file-sink.ts"),
  ]);
  context.onExit(abortAllSinks);
  return directoryOutput(directory, name, { overwrite: overwriteOf(context) });
}

/** One path that the user named; a set puts its other files beside it. */
export async function openOutputPath(context: Context, path: string): Promise<Output> {
  if (isS3Url(path)) return (await import("./s3-output.ts")).openS3Output(context, path);
  const inside = await findVaultPath(path);
  if (inside !== undefined) return vaultOutputOf(context, inside);
  return openOutputFolder(context, dirname(path), basename(path));
}

async function vaultOutputOf(context: Context, path: VaultPath): Promise<Output> {
  const [{ vaultOutput }, { writeContext }] = await Promise.all([
    import("../src/platform/node/vault-output.ts"),
    import("./commands/vault/change.ts"),
  ]);
  return vaultOutput(path, await writeContext(context), overwriteOf(context));
}

/** The name of the file that a path names, on disk or inside a vault. */
export async function outputFileName(path: string): Promise<string> {
  const inside = await findVaultPath(path);
  return basename(inside?.entry ?? path);
}

/** Where the files of an output go: beside the path that was named, on disk, in a bucket or inside a vault. */
export async function pathsBeside(path: string, names: readonly string[]): Promise<readonly string[]> {
  const inside = await findVaultPath(path);
  if (inside === undefined) return names.map((name) => pathIn(dirname(path), name));
  const folder = inside.entry.slice(0, inside.entry.lastIndexOf("/") + 1);
  if (names.length === 1) return [vaultPathText({ ...inside, entry: `${folder}${names[0]}` })];
  const message = `Cannot write ${names.length} files into a vault: a set is not stored directly`;
  const hint = "Write it to disk, and store it with tare vault add";
  throw new UsageError("usage/vault.output", message, { source: path }, { hint });
}

/** The path of a file in a folder, on disk or below a prefix of an object store. */
export function pathIn(folder: string, name: string): string {
  return isS3Url(folder) ? `${folder.replace(/\/$/, "")}/${name}` : join(folder, name);
}
