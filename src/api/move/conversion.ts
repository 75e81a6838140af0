import { UsageError } from "../../base/errors.ts";
import { nearest } from "../../base/nearest.ts";
import { printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import { FORMATS, formatById, formatForName, readersOf } from "../../formats/registry.ts";
import { folderOf } from "../../model/configuration.ts";
import type { Format, Opened } from "../../model/format.ts";
import type { OnUnfit } from "../../model/values/casts.ts";
import { checkWritten } from "../../operations/convert/check-written.ts";
import type { ConversionOptions } from "../../operations/convert/content.ts";
import { checkSource } from "../../operations/convert/source-check.ts";
import {
  type Conversion,
  originFormats,
  prepareConversion,
  requireWriter,
  writeConversion,
} from "../../operations/convert.ts";
import { doubtsOf, takenTensors, unverifiedNotes } from "../../operations/reading/trust.ts";
import { signatureName } from "../../operations/sign.ts";
import { type Request, type VerbHost, warnOf } from "../host.ts";
import type { OpenedInput } from "../inputs.ts";
import type { CommonOptions } from "../options.ts";
import { checkHolds, type Destination, type Folder, writeFiles } from "../outputs.ts";
import { startProgress } from "../progress.ts";
import type { ConvertResult } from "./results.ts";

/** One model that is written as another file, or as several. */
export interface ConversionJob {
  /** The model, and the resolver of the files beside it. */
  readonly opened: Opened & Pick<OpenedInput, "siblings" | "folder">;
  readonly target: Format;
  readonly place: Destination;
  readonly options: Omit<ConversionOptions, "formats">;
  /** Reads everything back before it gets its name. */
  readonly verify?: "verify" | undefined;
  /** Signs the file that was written. Returns its length if that is another one then. */
  readonly sign?: ((path: string) => Promise<number | undefined>) | undefined;
}

/** Plans, checks that no output exists, writes, and reports: shared by all verbs that write a model. */
export async function runConversion(host: VerbHost, request: Request, job: ConversionJob): Promise<ConvertResult> {
  const { opened, place, options } = job;
  const { signal, onNote } = request;
  const warn = warnOf(host, request);
  const [writer, formats] = await Promise.all([requireWriter(job.target), readersOf(originFormats(opened))]);
  const folder = await folderOf(opened, signal);
  if (folder?.problem !== undefined && writer.naming !== undefined) warn(folder.problem.message);
  const unfit = new Map<string, string>();
  const conversion = await prepareConversion(opened, writer, {
    ...options,
    onUnfit: (name, what) => unfit.set(`${what} ${name}`, unfitText(name, what)),
    created: sourceDate(host, request, opened),
    formats,
    folder,
    siblings: opened.siblings,
    signal,
  });
  const { plan } = conversion;
  await checkPlace(job, conversion);
  // If only some tensors are wanted, damage may be in the others.
  if (options.include === undefined && options.exclude === undefined) await checkInput(host, request, job);
  for (const text of doubtsOf(opened.container)) warn(text);
  for (const note of plan.notes) onNote?.(note);
  if (isDecrypting(job)) onNote?.("the input is encrypted, and what is written is not");
  for (const { name, reason } of plan.losses) warn(`"${printable(name)}": ${reason}`);
  const dryRun = request.dryRun === true;
  const signed = dryRun ? undefined : await write(request, job, conversion);
  for (const text of unfit.values()) warn(text);
  const unverified = dryRun ? [] : unverifiedNotes(opened, takenTensors(opened.container, options));
  for (const note of unverified) onNote?.(note);
  const files = plan.files.map(({ name, byteLength }) => ({
    path: place.pathOf(name),
    byteLength: name === plan.primary && signed !== undefined ? signed : byteLength,
  }));
  return {
    format: writer.format.id,
    dryRun,
    files,
    byteLength: files.reduce((sum, file) => sum + file.byteLength, 0),
    tensorCount: conversion.tensorCount,
    notes: [...plan.notes, ...unverified],
    losses: plan.losses,
  };
}

/** A user who asks for a type wants the nearest values of it, but must know where there are none. */
function unfitText(name: string, what: Parameters<OnUnfit>[1]): string {
  const quoted = `"${printable(name)}"`;
  if (what === "row without scale") return `${quoted}: rows with infinite values or NaN decode to nothing useful`;
  return `${quoted}: finite values became ${what}`;
}

/** Refuses files that would be replaced. Those that continue an earlier run may be there. */
async function checkPlace({ place, sign, target }: ConversionJob, { plan }: Conversion): Promise<void> {
  const resumed = new Set(plan.resumes);
  const names = plan.files.map(({ name }) => name);
  checkHolds(place, names.length);
  await place.checkAbsent(names.filter((name) => !resumed.has(name)));
  if (sign === undefined) return;
  // A format that has room for a signature has it in one file; shards are signed beside the first one.
  const isInside = names.length === 1 && (await target.write?.())?.signing !== undefined;
  if (!isInside) await place.checkAbsent([signatureName(plan.primary)]);
}

async function checkInput(host: VerbHost, request: Request, { opened, options }: ConversionJob): Promise<void> {
  const warn = warnOf(host, request);
  await checkSource(opened, {
    engine: request.engine,
    limits: request.limits ?? {},
    signal: request.signal,
    damage: options.allowLossy === undefined ? "refuse" : "warn",
    hint: "Get the file again; the option allowLossy takes it as it is",
    onWarning: ({ message, code }) => warn(`${message} [${code}]`),
  });
}

/** Formats that encrypt say so in their facts. */
function isDecrypting({ opened: { container }, options }: ConversionJob): boolean {
  if (container.kind !== "model" || options.encrypt !== undefined) return false;
  return container.facts.some(([name]) => name === "encryption");
}

/**
 * An output appears whole, or not at all; so does one that cannot be signed. Gives the length of the first file if signing
 * has changed it.
 */
async function write(request: Request, job: ConversionJob, conversion: Conversion): Promise<number | undefined> {
  const { force } = request;
  const { name } = job.options;
  const { primary, resumes } = conversion.plan;
  let signed: number | undefined;
  let state: "writing" | "signing" = "writing";
  const fillAndSign = async (folder: Folder): Promise<void> => {
    await fill(folder, request, job, conversion);
    state = "signing";
    signed = await job.sign?.(job.place.pathOf(primary));
  };
  if (resumes === undefined) {
    await writeFiles(job.place, { name, force }, fillAndSign);
    return signed;
  }
  // A set that goes on later keeps its files. It needs digests of them before they have their names.
  const undo: Destination["undo"] = async (names) => job.place.undo?.(state === "writing" ? [] : names);
  await writeFiles({ ...job.place, undo }, { name, force, use: "reads back" }, fillAndSign);
  return signed;
}

async function fill(folder: Folder, request: Request, job: ConversionJob, conversion: Conversion): Promise<void> {
  const { engine, signal, onProgress } = request;
  const { place } = job;
  const writing = startProgress({ label: "writing", total: conversion.dataBytes }, onProgress);
  let verifying: ReturnType<typeof startProgress> | undefined;
  const onVerified = (byteLength: number): void => {
    // How much is read again depends on the digests that the format carries.
    if (verifying === undefined) {
      writing.end();
      verifying = startProgress({ label: "verifying" }, onProgress);
    }
    verifying.add(byteLength);
  };
  const payloads = job.verify === undefined ? undefined : { onProgress: onVerified };
  await writeConversion(conversion, folder, {
    engine,
    signal,
    onProgress: (byteLength) => writing.add(byteLength),
    // An upload can be read only when it is complete. It is then checked as thoroughly as a file is before.
    verify: place.written === undefined ? payloads : undefined,
  });
  if (place.written !== undefined) {
    const { password } = conversion;
    await checkWritten(conversion, await place.written(conversion.plan.primary), {
      engine,
      signal,
      payloads,
      password,
    });
  }
  writing.end();
  verifying?.end();
}

/** The format to write: the one that the option `to` names, else the one of the output's name. */
export function chooseFormat(to: string | undefined, { fileName, label }: Destination): Format {
  const named =
    to === undefined ? undefined : (formatById(to.toLowerCase().replace(/^\./, "")) ?? formatForName(`x.${to}`));
  const format = to === undefined ? formatForName(fileName ?? "") : named;
  if (format !== undefined) return format;
  const writable = FORMATS.filter((candidate) => candidate.write !== undefined);
  const ids = writable.map(({ id }) => id).join(", ");
  if (to !== undefined) {
    const message = `Cannot write "${printable(to)}": the option to must be one of ${ids}`;
    throw new UsageError("usage/output-format", message, { source: label, path: "to" });
  }
  const extensions = writable.map(({ extensions: [first = ""] }) => first).join(", ");
  const message = `Cannot tell the output format of "${printable(label)}": it has no extension that says it`;
  const typed = /\.[^./\\]+$/.exec(fileName ?? "")?.[0];
  const meant =
    typed === undefined
      ? undefined
      : nearest(
          typed,
          writable.flatMap((one) => one.extensions),
        );
  const guess = meant === undefined ? "" : `Did you mean "${meant}"? `;
  const hint = `${guess}Pass the option to, one of ${ids}, or use one of the extensions ${extensions}`;
  throw new UsageError("usage/option-missing", message, { source: label, path: "to" }, { hint });
}

/** Refuses an existing output before the input is opened, if its name is known by then. */
export async function checkNamed(place: Destination): Promise<void> {
  await place.checkAbsent(place.fileName === undefined ? [] : [place.fileName]);
}

/** The option `allowLossy` as writers take it. */
export function lossy(allowed: boolean | undefined): Pick<ConversionOptions, "allowLossy"> {
  return allowed === true ? { allowLossy: "allow-lossy" } : {};
}

/**
 * When the model that is written was made, in milliseconds since 1970: what SOURCE_DATE_EPOCH says, else the newest time
 * of the files that it is read from. Never the time of writing, so that the same input gives the same bytes. Undefined if
 * the input has no time.
 */
export function sourceDate(host: VerbHost, request: CommonOptions, opened: Opened): number | undefined {
  return statedDate(host.sourceDate?.(request)) ?? newestOf(opened);
}

/** The last second of the year 9999, after which RFC 3339 has no dates. */
const LAST_SECOND = 253_402_300_799;

/** Whole seconds since 1970, as https://reproducible-builds.org/specs/source-date-epoch has it. */
function statedDate(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (/^\d+$/.test(text) && Number(text) <= LAST_SECOND) return Number(text) * 1000;
  const message = `Cannot use "${text}" as SOURCE_DATE_EPOCH: must be a number of seconds since 1970`;
  throw new UsageError("usage/flag-value", message, { source: "environment" });
}

/** A file in an archive has a time of its own; that of the archive is another. */
function newestOf({ container, stored }: Opened): number | undefined {
  const times =
    stored === undefined
      ? container.parts.map(({ source }) => modifiedOf(source))
      : [...stored].map(({ modified }) => modified);
  return times.reduce((newest, time) => (time === undefined ? newest : Math.max(time, newest ?? time)), undefined);
}

function modifiedOf({ descriptor }: Source): number | undefined {
  if (descriptor?.kind === "file") return descriptor.modified;
  const blob = descriptor?.kind === "blob" ? descriptor.blob : undefined;
  // Not every runtime has File.
  return blob !== undefined && "lastModified" in blob
    ? (blob as { readonly lastModified: number }).lastModified
    : undefined;
}
