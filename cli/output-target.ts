import { lstat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { UsageError } from "../src/base/errors.ts";
import { isS3Url } from "../src/bytes/s3-address.ts";
import type { Output, Sink } from "../src/bytes/sink.ts";
import type { Overwrite } from "../src/platform/node/file-sink.ts";
import type { Context } from "./context.ts";

/** What `--force` means to a sink. */
export function overwriteOf(context: Context): Overwrite {
  return context.flags.force === true ? "replace" : "refuse";
}

/** Refuses a path that is taken, before any work is done for it. Sinks check again when they commit. */
export async function checkAbsent(context: Context, path: string): Promise<void> {
  if (context.flags.force === true) return;
  if (isS3Url(path)) return (await import("./s3-output.ts")).checkS3Absent(context, path);
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
  return openOutputFolder(context, dirname(path), basename(path));
}

/** The path of a file in a folder, on disk or below a prefix of an object store. */
export function pathIn(folder: string, name: string): string {
  return isS3Url(folder) ? `${folder.replace(/\/$/, "")}/${name}` : join(folder, name);
}
