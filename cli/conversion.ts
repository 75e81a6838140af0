import { dirname, join } from "node:path";
import { UsageError } from "../src/base/errors.ts";
import { printable } from "../src/base/text.ts";
import { FORMATS } from "../src/formats/registry.ts";
import type { Format, Opened, WriteOptions } from "../src/model/format.ts";
import { type Conversion, type ConversionOptions, planConversion, writeConversion } from "../src/operations/convert.ts";
import type { Context } from "./context.ts";
import { checkAbsent, openOutputPath } from "./output-target.ts";
import { formatSize, plural } from "./render/sizes.ts";
import { checkStandardOutput, stdoutOutput } from "./stdout-sink.ts";

export interface ConversionJob {
  readonly opened: Opened;
  readonly target: Format;
  /** The path the user named, or for sets the one their names derive from; "-" for standard output. */
  readonly path: string;
  readonly options: Omit<ConversionOptions, "formats">;
}

/** Plans, checks that nothing is in the way, writes, and reports: what convert, shard and merge share. */
export async function runConversion(context: Context, job: ConversionJob): Promise<void> {
  const toPipe = job.path === "-";
  if (toPipe) checkStandardOutput(context);
  const conversion = planConversion(job.opened, job.target, { ...job.options, formats: FORMATS });
  const { files, notes, losses } = conversion.plan;
  if (toPipe && files.length > 1) throw setToPipe(files.length);
  const paths = files.map((file) => join(dirname(job.path), file.name));
  if (!toPipe) for (const path of paths) await checkAbsent(context, path);
  for (const note of notes) context.note(`note: ${note}`);
  for (const { name, reason } of losses) context.warn(`tare: warning: "${printable(name)}": ${reason}`);
  if (context.flags["dry-run"] !== true) await write(context, conversion, job);
  if (!toPipe) await report(context, conversion, paths);
}

function setToPipe(count: number): UsageError {
  const message = `Cannot write ${count} files to standard output: name a path`;
  return new UsageError("usage/arguments", message, { source: "command line" });
}

async function write(context: Context, conversion: Conversion, { path, options }: ConversionJob): Promise<void> {
  const progress = context.progress({ label: "writing", total: conversion.dataBytes });
  const onProgress = (byteLength: number): void => progress.add(byteLength);
  const output = path === "-" ? stdoutOutput(context.terminal, options.name) : await openOutputPath(context, path);
  await writeConversion(conversion, output, { engine: await context.engine(), signal: context.signal, onProgress });
  progress.end();
}

async function report(context: Context, conversion: Conversion, paths: readonly string[]): Promise<void> {
  const { format, plan, tensorCount } = conversion;
  const dryRun = context.flags["dry-run"] === true;
  const files = plan.files.map(({ byteLength }, i) => ({ path: paths[i], byteLength }));
  const byteLength = files.reduce((sum, file) => sum + file.byteLength, 0);
  const { notes, losses } = plan;
  await context.show({
    json: () => ({ format: format.id, dryRun, files, byteLength, tensorCount, notes, losses }),
    text: () => {
      const last = paths.at(-1) ?? "";
      const where = paths.length === 1 ? last : `${plural(paths.length, "file")} in ${dirname(last)}`;
      return `${dryRun ? "would write" : "wrote"} ${where}: ${format.name}, ${plural(tensorCount, "tensor")}, ${formatSize(byteLength)}`;
    },
  });
}

/** `--allow-lossy` as the writers take it. */
export function allowLossy(flag: true | undefined): Pick<WriteOptions, "allowLossy"> {
  return flag === true ? { allowLossy: "allow-lossy" } : {};
}
