import { IntegrityError, UnsupportedError } from "../base/errors.ts";
import { takeTurn } from "../base/turns.ts";
import type { Resolver } from "../bytes/resolver.ts";
import type { Output } from "../bytes/sink.ts";
import type { Loss } from "../model/finding.ts";
import type {
  Format,
  FormatWriter,
  ModelContent,
  Opened,
  PasswordSource,
  PrepareContext,
  WriteContext,
  WritePlan,
} from "../model/format.ts";
import { encodingsIn, type Origin, takeOrigin } from "../model/origin/origin.ts";
import { checkWritten, type PayloadCheck, provenOutput, readableOutput } from "./convert/check-written.ts";
import { type ConversionOptions, castContent, contentOf, selectedContent } from "./convert/content.ts";
import { foundDamage } from "./convert/source-check.ts";
import { unclaimedBytes } from "./reading/unclaimed.ts";

export interface Conversion {
  readonly writer: FormatWriter;
  readonly plan: WritePlan;
  readonly content: ModelContent;
  readonly tensorCount: number;
  /** Bytes of tensor data that will be copied, for progress. */
  readonly dataBytes: number;
  /** Present if the output is encrypted; needed to read it back. */
  readonly password?: PasswordSource | undefined;
  /**
   * Compares what was read with the files that the source's set states, if it states any. Nothing is published before.
   */
  readonly prove?: ((signal: AbortSignal | undefined) => Promise<void>) | undefined;
}

/**
 * Ids of the formats whose code reads what `tare.origin` carries: those that the model has been in before, and those in
 * whose encoding a value is. A step on the way may have left the chain since, and its encoding with a value.
 */
export function originFormats({ container }: Opened): readonly string[] {
  const origin = container.kind === "model" ? takeOrigin(container.metadata).origin : undefined;
  return origin === undefined ? [] : [...new Set([...formatsOf(origin), ...encodingsIn(origin)])];
}

/** Newest first. */
function formatsOf({ chain }: Origin): readonly string[] {
  return chain.map(({ format }) => format);
}

/** True if the model is or was a GGUF, so that its tensors have the names and conventions of llama.cpp. */
export function wasGguf(opened: Opened): boolean {
  const { container, format } = opened;
  if (container.kind !== "model") return false;
  const { origin } = takeOrigin(container.metadata);
  return format.id === "gguf" || (origin !== undefined && formatsOf(origin).includes("gguf"));
}

/** The writer of a format; refuses a format that is only read. */
export async function requireWriter(format: Format): Promise<FormatWriter> {
  if (format.write !== undefined) return format.write();
  const message = `Cannot write ${format.name}: this version only reads it`;
  throw new UnsupportedError("unsupported/write", message, { source: format.id });
}

/**
 * Makes every decision of a conversion before a byte is written, and refuses losses. The content goes to the target
 * unchanged; `prepareConversion` lets the target adapt it first.
 */
export function planConversion(opened: Opened, target: FormatWriter, options: ConversionOptions): Conversion {
  const known = withFormats(options, target);
  return planContent(opened, target, { content: contentOf(opened, known, target), options: known });
}

function withFormats(options: ConversionOptions, target: FormatWriter): ConversionOptions {
  return options.formats.includes(target) ? options : { ...options, formats: [...options.formats, target] };
}

/** What a conversion may read in addition to the file it converts. */
interface PreparationContext {
  /** Reaches the files next to the source. */
  readonly siblings?: Resolver | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Like `planConversion`, after the target has adapted the content to its conventions. May read. */
export async function prepareConversion(
  opened: Opened,
  target: FormatWriter,
  { siblings, signal, ...given }: ConversionOptions & PreparationContext,
): Promise<Conversion> {
  const options = withFormats(given, target);
  const isSelected = (options.include?.length ?? 0) + (options.exclude?.length ?? 0) > 0;
  let files: ReadonlySet<string> | undefined;
  const labels = isSelected ? (): ReadonlySet<string> => (files ??= filesOf(opened, options)) : undefined;
  await openFiles(opened, labels);
  await checkFiles(opened, signal, labels);
  refuseFound(opened, options, labels);
  const unclaimed = [...(await damageOf(opened, options, signal)), ...(await unclaimedBytes(opened, signal))];
  // Each step takes seconds for a million tensors, and cannot be interrupted itself.
  const selection = selectedContent(opened, options, target);
  await takeTurn(signal);
  const content = await adaptContent(selection.selected, target, {
    options,
    siblings,
    from: opened.format.id,
    selection: isSelected ? "some" : "all",
    dtype: options.dtype,
    types: options.dtype === undefined && options.transform === undefined ? undefined : "asked",
    at: { source: labelOf(opened) },
    signal,
  });
  const cast = castContent(content, selection, options);
  await takeTurn(signal);
  const conversion = planContent(opened, target, { content: cast, options, unclaimed });
  await takeTurn(signal);
  return conversion;
}

/** The content as the target's conventions want it; the losses so far stay. */
async function adaptContent(
  content: ModelContent,
  target: FormatWriter,
  context: PrepareContext,
): Promise<ModelContent> {
  if (target.prepare === undefined) return content;
  const { losses = [], ...rest } = content;
  const prepared = await target.prepare(rest, context);
  const told = [...losses, ...(prepared.losses ?? [])];
  return { ...prepared, losses: told };
}

/**
 * Opens the files that will be read, if that was postponed. Only then is it known what they hold besides their tensors.
 */
async function openFiles({ container }: Opened, labels: FileLabels | undefined): Promise<void> {
  if (container.kind !== "model" || container.openParts === undefined) return;
  if (labels === undefined) return container.openParts();
  for (const label of labels()) await container.openPart?.(label);
}

/**
 * Refuses a file that is clearly not the one of its set, before anything is written. Other files are proven at the end.
 */
export async function checkFiles(
  { container }: Opened,
  signal: AbortSignal | undefined,
  labels?: FileLabels,
): Promise<void> {
  if (container.kind !== "model" || container.checkPart === undefined) return;
  const wanted = labels?.() ?? container.parts.map(({ label }) => label);
  for (const label of wanted) await container.checkPart(label, { signal });
}

/** Refuses a file that opening found damaged: nothing that is made of it would show the damage. */
function refuseFound(opened: Opened, { allowLossy }: ConversionOptions, labels: FileLabels | undefined): void {
  const found = allowLossy === undefined ? foundDamage(opened, labels?.()) : undefined;
  if (found === undefined) return;
  throw new IntegrityError(found.code as `integrity/${string}`, found.message, found.at, { hint: DAMAGE_HINT });
}

const DAMAGE_HINT = "Get the file again; the option allowLossy takes it as it is";

/**
 * Refuses a file whose digests show that its metadata or its tables are damaged: what is written would look sound. If
 * losses are allowed, the damage is one of them.
 */
async function damageOf(
  { container }: Opened,
  { allowLossy }: ConversionOptions,
  signal: AbortSignal | undefined,
): Promise<readonly Loss[]> {
  if (container.kind !== "model" || container.findDamage === undefined) return [];
  const damage = await container.findDamage({ signal });
  const differing = damage.find((error) => error instanceof IntegrityError);
  if (differing !== undefined && allowLossy === undefined) {
    const { code, message, at } = differing;
    throw new IntegrityError(code as `integrity/${string}`, message, at, { hint: DAMAGE_HINT, cause: differing });
  }
  return damage.map(({ message, at }) => ({ name: at.path ?? at.source, reason: message, at }));
}

/** Labels of the files with the tensors that are taken, if some are left out. */
type FileLabels = () => ReadonlySet<string>;

function filesOf(opened: Opened, options: ConversionOptions): ReadonlySet<string> {
  const labels = selectedContent(opened, { ...options, given: undefined }).selected.tensors.map(({ file }) => file);
  return new Set(labels.filter((label) => label !== undefined));
}

interface PlannedContent {
  readonly content: ModelContent;
  readonly options: ConversionOptions;
  /** Losses that reading the source's files found outside of the model. */
  readonly unclaimed?: readonly Loss[] | undefined;
}

function planContent(
  opened: Opened,
  target: FormatWriter,
  { content, options, unclaimed = [] }: PlannedContent,
): Conversion {
  const bare = target.plan(content, options);
  const model = opened.container.kind === "model" ? opened.container : undefined;
  const { unread = [], staysBehind = [], unproven = [], beside } = model ?? {};
  const left = bare.beside === beside ? [] : (beside?.losses ?? []);
  const planned = { ...bare, notes: [...staysBehind, ...unproven, ...(content.notes ?? []), ...bare.notes] };
  const told = new Set(unread.map(({ name }) => name));
  const found = [...unread, ...left, ...unclaimed.filter(({ name }) => !told.has(name)), ...(content.losses ?? [])];
  const plan = { ...planned, losses: [...found, ...planned.losses] };
  if (options.allowLossy === undefined) refuseLosses(plan.losses, `convert to ${target.format.name}`, labelOf(opened));
  const dataBytes = content.tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  return {
    writer: target,
    plan,
    content,
    tensorCount: content.tensors.length,
    dataBytes,
    password: options.encrypt?.password,
    prove: async (signal) => model?.prove?.({ signal }),
  };
}

export interface ConversionContext extends WriteContext {
  /** Also reads the payloads back before anything becomes visible. The output must support reading back. */
  readonly verify?: PayloadCheck | undefined;
}

/**
 * Writes the planned files, streaming. Nothing is visible at the output before it is complete and its structure has
 * been read back: every tensor must have its place and its length and, with `verify`, its bytes.
 */
export async function writeConversion(
  conversion: Conversion,
  output: Output,
  context: ConversionContext,
): Promise<void> {
  const { verify: payloads, ...writing } = context;
  const { engine, signal } = writing;
  const check = async (written: Resolver): Promise<void> => {
    await checkWritten(conversion, written, { engine, signal, payloads, password: conversion.password });
    await writing.check?.(written);
  };
  const destination = provenOutput(payloads === undefined ? output : readableOutput(output), async () => {
    await conversion.prove?.(signal);
  });
  await conversion.writer.write(conversion.plan, destination, { ...writing, check });
}

/** Throws `unsupported/lossy` if there are any; `what` is the operation that would lose them. */
export function refuseLosses(losses: readonly Loss[], what: string, label: string): void {
  if (losses.length === 0) return;
  const shown = losses.slice(0, 3).map(({ name, reason }) => `"${name}" (${reason})`);
  const more = losses.length > 3 ? ` and ${losses.length - 3} more` : "";
  const message = `Cannot ${what} without loss: ${shown.join(", ")}${more}`;
  const at = losses[0]?.at ?? { source: label };
  const hint = losses.every((loss) => loss.at !== undefined) ? STRAY_HINT : NAMED_HINT;
  throw new UnsupportedError("unsupported/lossy", message, at, { hint });
}

/** These bytes have no name, so they cannot be excluded, and no format takes them. */
const STRAY_HINT =
  'Tensors and metadata do not need these bytes, and no format has a place for them: "tare map" shows where they lie; pass the option allowLossy to go on without them, and keep the file if they matter';
const NAMED_HINT =
  "Leave tensors out with the option exclude, choose another format, or accept the loss with the option allowLossy";

function labelOf({ container, format }: Opened): string {
  return container.parts[0]?.label ?? format.id;
}
