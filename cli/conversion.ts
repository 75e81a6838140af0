import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { UsageError } from "../src/base/errors.ts";
import { printable } from "../src/base/text.ts";
import type { Resolver } from "../src/bytes/resolver.ts";
import { isS3Url } from "../src/bytes/s3/address.ts";
import type { Output } from "../src/bytes/sink.ts";
import { readersOf } from "../src/formats/registry.ts";
import type { Format, Opened, WriteOptions } from "../src/model/format.ts";
import { checkWritten } from "../src/operations/check-written.ts";
import {
  type Conversion,
  type ConversionOptions,
  originFormats,
  prepareConversion,
  requireWriter,
  writeConversion,
} from "../src/operations/convert.ts";
import { fileError } from "../src/platform/node/errors.ts";
import { refuseVaultPath } from "../src/platform/node/output-place.ts";
import { checkSource } from "./check-source.ts";
import type { Context } from "./context.ts";
import { warnOfDoubts } from "./doubts.ts";
import { checkAbsent, openOutputPath, pathIn, pathsBeside } from "./output-target.ts";
import { formatSize, plural } from "./render/sizes.ts";
import { checkStandardOutput, stdoutOutput } from "./stdout-sink.ts";
import { takenTensors, unverifiedNotes } from "./unverified.ts";

export interface ConversionJob {
  /** The model, and what reaches the files beside it. */
  readonly opened: Opened & { readonly siblings?: Resolver | undefined };
  readonly target: Format;
  /** The path the user named, or for sets the one their names derive from; "-" for standard output. */
  readonly path: string;
  readonly options: Omit<ConversionOptions, "formats">;
  /** What the command has to say about the tensors, asked for once they are written. */
  readonly details?: (() => { readonly json: object; readonly text: string }) | undefined;
  /** Read everything back before it gets its name. */
  readonly verify?: "verify" | undefined;
  /** What is done with the written files, before they are reported: signing. Gets the path by which they are opened. */
  readonly finish?: ((path: string) => Promise<void>) | undefined;
}

/** Plans, checks that nothing is in the way, writes, and reports: what convert, shard and merge share. */
export async function runConversion(context: Context, job: ConversionJob): Promise<void> {
  const toPipe = job.path === "-";
  if (toPipe) checkStandardOutput(context);
  const [target, formats] = await Promise.all([requireWriter(job.target), readersOf(originFormats(job.opened))]);
  const conversion = await prepareConversion(job.opened, target, {
    ...job.options,
    formats,
    siblings: job.opened.siblings,
    signal: context.signal,
  });
  const { files, notes, losses } = conversion.plan;
  if (job.finish !== undefined) await refuseVaultPath(job.path, "a model that is signed when it is written");
  if (toPipe && files.length > 1) throw setToPipe(files.length);
  const paths = await pathsBeside(
    job.path,
    files.map((file) => file.name),
  );
  // Files of a set get their names one after the other, and what is read must be whole till the last of them has its own.
  const inputs = files.length === 1 ? "rewritten" : "kept";
  const resumes = new Set(conversion.plan.resumes);
  for (const [i, path] of paths.entries()) {
    if (!toPipe && !resumes.has(files[i]?.name ?? "")) await checkAbsent(context, path, { inputs });
  }
  // Where only some tensors are wanted, damage may be in the others.
  if ((job.options.include ?? job.options.exclude) === undefined) {
    const damage = job.options.allowLossy === undefined ? "refuse" : "warn";
    await checkSource(context, job.opened, { damage, hint: "Get the file again; --allow-lossy takes it as it is" });
  }
  warnOfDoubts(context, job.opened.container);
  for (const note of notes) context.note(`note: ${note}`);
  if (isDecrypting(job)) context.note("note: the input is encrypted, and what is written is not");
  for (const { name, reason } of losses) context.warn(`tare: warning: "${printable(name)}": ${reason}`);
  if (context.flags["dry-run"] !== true) {
    await write(context, conversion, job);
    await job.finish?.(pathIn(dirname(job.path), conversion.plan.primary));
  }
  const { container } = job.opened;
  const isDry = context.flags["dry-run"] === true;
  const unverified = isDry ? [] : unverifiedNotes(container, takenTensors(container, job.options));
  for (const note of unverified) context.note(`note: ${note}`);
  if (!toPipe) await report(context, conversion, { paths, unverified, details: job.details, finish: job.finish });
}

/** Formats that encrypt say so in their facts. */
function isDecrypting({ opened, options }: ConversionJob): boolean {
  const { container } = opened;
  if (container.kind !== "model" || options.encrypt !== undefined) return false;
  return container.facts.some(([name]) => name === "encryption");
}

function setToPipe(count: number): UsageError {
  const message = `Cannot write ${count} files to standard output: name a path`;
  return new UsageError("usage/arguments", message, { source: "command line" });
}

async function write(
  context: Context,
  conversion: Conversion,
  { path, options, verify }: ConversionJob,
): Promise<void> {
  const total = conversion.dataBytes;
  let progress = context.progress({ label: "writing", total });
  const onProgress = (byteLength: number): void => progress.add(byteLength);
  let isVerifying = false;
  const onVerified = (byteLength: number): void => {
    if (!isVerifying) {
      progress.end();
      // How much is read again depends on which digests the format carries.
      progress = context.progress({ label: "verifying" });
      isVerifying = true;
    }
    progress.add(byteLength);
  };
  const output =
    path === "-" ? stdoutOutput(context.terminal, options.name) : await openOutput(context, conversion, path);
  const [engine, { signal }] = [await context.engine(), context];
  const payloads = verify === undefined ? undefined : { onProgress: onVerified };
  // An upload can be read only once it is complete: it is checked then, as thoroughly as a file is before.
  const isUpload = isS3Url(path);
  await writeConversion(conversion, output, { engine, signal, onProgress, verify: isUpload ? undefined : payloads });
  if (isUpload) {
    const { writtenObjects } = await import("./s3-output.ts");
    const { password } = conversion;
    await checkWritten(conversion, await writtenObjects(context, path), { engine, signal, payloads, password });
  }
  progress.end();
}

/** A set that goes on with an earlier run takes digests of its files before they have their names. */
async function openOutput(context: Context, { plan }: Conversion, path: string): Promise<Output> {
  if (!isS3Url(path) || plan.resumes === undefined) return openOutputPath(context, path);
  return (await import("./s3-output.ts")).openStagedS3Output(context, path);
}

interface Written extends Pick<ConversionJob, "details" | "finish"> {
  readonly paths: readonly string[];
  readonly unverified: readonly string[];
}

async function report(context: Context, conversion: Conversion, written: Written): Promise<void> {
  const { paths, unverified, details, finish } = written;
  const { plan, tensorCount } = conversion;
  const { format } = conversion.writer;
  const dryRun = context.flags["dry-run"] === true;
  const planned = plan.files.map(({ byteLength }, i) => ({ path: paths[i] ?? "", byteLength }));
  // A signature inside makes a file longer than it was planned.
  const files = finish === undefined || dryRun ? planned : await Promise.all(planned.map(measured));
  const byteLength = files.reduce((sum, file) => sum + file.byteLength, 0);
  const { losses } = plan;
  const notes = [...plan.notes, ...unverified];
  await context.show({
    json: () => ({ format: format.id, dryRun, files, byteLength, tensorCount, notes, losses, ...details?.().json }),
    text: () => {
      const said = details === undefined ? "" : `${details().text}\n`;
      const last = paths.at(-1) ?? "";
      const where = paths.length === 1 ? last : `${plural(paths.length, "file")} in ${dirname(last)}`;
      return `${said}${dryRun ? "would write" : "wrote"} ${where}: ${format.name}, ${plural(tensorCount, "tensor")}, ${formatSize(byteLength)}`;
    },
  });
}

async function measured({ path }: { readonly path: string }): Promise<{ path: string; byteLength: number }> {
  const { size } = await stat(path).catch((error: unknown) => {
    throw fileError(error, `Cannot measure "${path}"`, { source: path });
  });
  return { path, byteLength: size };
}

/** `--allow-lossy` as the writers take it. */
export function allowLossy(flag: true | undefined): Pick<WriteOptions, "allowLossy"> {
  return flag === true ? { allowLossy: "allow-lossy" } : {};
}
