import type { Bytes } from "../base/bytes.ts";
import { isTareError, type Location, UnsupportedError, UsageError } from "../base/errors.ts";
import type { Resolver } from "../bytes/resolver.ts";
import type { Output } from "../bytes/sink.ts";
import { byteLengthOf, type DType, isDType } from "../model/dtype.ts";
import { restoreEarlier } from "../model/earlier-form.ts";
import type {
  Format,
  FormatWriter,
  Loss,
  ModelContent,
  Opened,
  PasswordSource,
  ValueDecoder,
  WriteContext,
  WriteOptions,
  WritePlan,
} from "../model/format.ts";
import type { Checkpoint, ConvertedModel } from "../model/ggml/checkpoint.ts";
import { FILE_TYPE_KEY, withTrueTypes } from "../model/ggml/file-types.ts";
import { type EncodedValue, Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../model/metadata.ts";
import { decodeMetadataJson } from "../model/metadata-json.ts";
import { type CarriedTensor, renameInChain, restoreOrder, takeOrigin } from "../model/origin.ts";
import { restoreMetadata } from "../model/origin-metadata.ts";
import type { Shape } from "../model/shape.ts";
import type { Tensor } from "../model/tensor.ts";
import { unevenLayout } from "../model/values/block-rows.ts";
import { castTensor, type FloatTarget, isCastable } from "../model/values/casts.ts";
import { checkWritten, type PayloadCheck, readableOutput } from "./check-written.ts";
import { unclaimedBytes } from "./map.ts";
import { matchesAny } from "./select.ts";

export interface ConversionOptions extends WriteOptions {
  readonly include?: readonly string[] | undefined;
  readonly exclude?: readonly string[] | undefined;
  /** Rounds every floating-point tensor to this type. */
  readonly dtype?: FloatTarget | undefined;
  /** Other names for the tensors that are taken, and other values where the names stand for others: huggingFaceCheckpoint. */
  readonly rename?: ((model: ConvertedModel) => Checkpoint) | undefined;
  /** What happens to each tensor that is taken: quantising, for one. */
  readonly transform?: ((tensor: Tensor) => Tensor) | undefined;
  /** Laid over the metadata before it is written. */
  readonly overlay?: MetadataOverlay | undefined;
  /**
   * The formats that the content has been in (originFormats), so that values carried from them can be decoded again; those
   * of the source and of the target need not be among them. A value that none of them decodes is a loss.
   */
  readonly formats: readonly ValueDecoder[];
}

export interface Conversion {
  readonly writer: FormatWriter;
  readonly plan: WritePlan;
  readonly content: ModelContent;
  readonly tensorCount: number;
  /** Bytes of tensor data that will be copied, for progress. */
  readonly dataBytes: number;
  /** Present where the output is encrypted: what reads it back. */
  readonly password?: PasswordSource | undefined;
  /** Compares what was read with what states the source's files, where something does; nothing is published before. */
  readonly prove?: ((signal: AbortSignal | undefined) => Promise<void>) | undefined;
}

/** Ids of the formats that a model has been in before, newest first. */
export function originFormats({ container }: Opened): readonly string[] {
  if (container.kind !== "model") return [];
  return (takeOrigin(container.metadata).origin?.chain ?? []).map(({ format }) => format);
}

/** True where the model is a GGUF or was one, so that its tensors have the names and customs of llama.cpp. */
export function wasGguf(opened: Opened): boolean {
  const { container, format } = opened;
  if (container.kind !== "model") return false;
  return format.id === "gguf" || originFormats(opened).includes("gguf");
}

/** What writes files of a format; one that is only read is refused. */
export async function requireWriter(format: Format): Promise<FormatWriter> {
  if (format.write !== undefined) return format.write();
  const message = `Cannot write ${format.name}: this version only reads it`;
  throw new UnsupportedError("unsupported/write", message, { source: format.id });
}

/**
 * Every decision of a conversion, made before a byte is written; what would be lost is refused here. The content goes to
 * the target as it is: `prepareConversion` lets the target adapt it first.
 */
export function planConversion(opened: Opened, target: FormatWriter, options: ConversionOptions): Conversion {
  const known = withFormats(options, target);
  return planContent(opened, target, { content: contentOf(opened, known, target), options: known });
}

function withFormats(options: ConversionOptions, target: FormatWriter): ConversionOptions {
  return options.formats.includes(target) ? options : { ...options, formats: [...options.formats, target] };
}

/** What a conversion may look at beside the file it converts. */
interface PreparationContext {
  /** Reaches the files beside the source. */
  readonly siblings?: Resolver | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Like `planConversion`, after the target has made of the content what its files hold by custom. May read. */
export async function prepareConversion(
  opened: Opened,
  target: FormatWriter,
  { siblings, signal, ...given }: ConversionOptions & PreparationContext,
): Promise<Conversion> {
  const options = withFormats(given, target);
  const isSelected = (options.include?.length ?? 0) + (options.exclude?.length ?? 0) > 0;
  await openFiles(opened, options, isSelected ? "selected" : "all");
  const unclaimed = await unclaimedBytes(opened, signal);
  const { selected, whole } = selectedContent(opened, options, target);
  if (target.prepare === undefined) {
    return planContent(opened, target, { content: castContent(selected, whole, options), options, unclaimed });
  }
  const { losses = [], ...rest } = selected;
  const prepared = await target.prepare(rest, {
    options,
    siblings,
    from: opened.format.id,
    selection: isSelected ? "some" : "all",
    dtype: options.dtype,
    types: options.dtype === undefined && options.transform === undefined ? undefined : "asked",
    at: { source: labelOf(opened) },
    signal,
  });
  const content = castContent(prepared, whole, options);
  const told = { ...content, losses: [...losses, ...(prepared.losses ?? [])] };
  return planContent(opened, target, { content: told, options, unclaimed });
}

/** Opens the files that will be read, where that was put off: only then is it known what they hold beside their tensors. */
async function openFiles(opened: Opened, options: ConversionOptions, which: "all" | "selected"): Promise<void> {
  const { container } = opened;
  if (container.kind !== "model" || container.openParts === undefined) return;
  if (which === "all") return container.openParts();
  const labels = new Set(selectedContent(opened, options).selected.tensors.map(({ file }) => file));
  for (const label of labels) if (label !== undefined) await container.openPart?.(label);
}

interface PlannedContent {
  readonly content: ModelContent;
  readonly options: ConversionOptions;
  /** What reading the source's files found beside the model. */
  readonly unclaimed?: readonly Loss[] | undefined;
}

function planContent(
  opened: Opened,
  target: FormatWriter,
  { content, options, unclaimed = [] }: PlannedContent,
): Conversion {
  const bare = target.plan(content, options);
  const model = opened.container.kind === "model" ? opened.container : undefined;
  const { unread = [], staysBehind = [], unproven = [] } = model ?? {};
  const planned = { ...bare, notes: [...staysBehind, ...unproven, ...(content.notes ?? []), ...bare.notes] };
  const told = new Set(unread.map(({ name }) => name));
  const found = [...unread, ...unclaimed.filter(({ name }) => !told.has(name)), ...(content.losses ?? [])];
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
  /** Reads the payloads back too, before anything becomes visible. The output must be one that can be read back. */
  readonly verify?: PayloadCheck | undefined;
}

/**
 * Writes what was planned, streaming. Nothing is visible at the output before it is complete and its structure has
 * been read back: every tensor must be where the new file says, with the length it had, and with `verify` the bytes.
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

/** Nothing becomes visible before `prove` has resolved. */
function provenOutput(output: Output, prove: () => Promise<void>): Output {
  return {
    ...output,
    async create(name) {
      const sink = await output.create(name);
      const commit = async (): Promise<void> => {
        await prove();
        await sink.commit();
      };
      // Sinks have private state, so that what they do must be done by themselves.
      return new Proxy(sink, {
        get: (target, key) => {
          if (key === "commit") return commit;
          const value: unknown = Reflect.get(target, key, target);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    },
  };
}

/** The model as a writer sees it: filtered, cast, and with everything restored that earlier conversions carried. */
export function contentOf(opened: Opened, options: ConversionOptions, target?: FormatWriter): ModelContent {
  const { selected, whole } = selectedContent(opened, options, target);
  return castContent(selected, whole, options);
}

/** `whole` is what the model had before anything was left out, renamed or prepared: what its metadata speaks of. */
function castContent(
  content: ModelContent,
  whole: readonly Tensor[],
  { dtype, transform }: ConversionOptions,
): ModelContent {
  const { metadata, chain } = content;
  const floats = content.tensors.map((t) => (dtype !== undefined && isCastable(t, dtype) ? castTensor(t, dtype) : t));
  const tensors = transform === undefined ? floats : floats.map(transform);
  const isTold = chain.some(({ format }) => format === "gguf") || metadata.get(FILE_TYPE_KEY) !== undefined;
  return { ...content, tensors, metadata: isTold ? withTrueTypes(metadata, whole, tensors) : metadata };
}

interface Selection {
  readonly selected: ModelContent;
  readonly whole: readonly Tensor[];
}

function selectedContent(
  { container, format, reader }: Opened,
  options: ConversionOptions,
  target?: FormatWriter,
): Selection {
  if (container.kind !== "model") {
    throw new UsageError("usage/not-a-model", "Cannot convert: this is an archive of files, not a model", {
      source: container.parts[0]?.label ?? format.id,
    });
  }
  const { metadata, origin } = takeOrigin(container.metadata);
  const facts = reader.describe?.(container) ?? {};
  const chain = [{ format: format.id, facts }, ...(origin?.chain ?? [])];
  const formats = [...options.formats, reader];
  const decode = (encoded: EncodedValue): MetadataValue | undefined => decodeCarried(encoded, formats);
  const restored = restoreTensors(restoreOrder(container.tensors, origin?.order), origin?.tensors ?? []);
  const tensors = restored.filter(({ name }) => {
    const excluded = options.exclude !== undefined && options.exclude.length > 0 && matchesAny(options.exclude, name);
    return !excluded && matchesAny(options.include ?? [], name);
  });
  const none = { metadata, unreadable: [] };
  const carried = origin === undefined ? none : restoreMetadata(metadata, origin, decode);
  const earlier = restoreEarlier({ metadata: carried.metadata, tensors, chain }, target?.format.id, decode);
  const { metadata: own } = earlier;
  const unreadable = [...carried.unreadable, ...earlier.unreadable];
  const renamed = options.rename?.({
    metadata: own,
    tensors: earlier.tensors,
    names: new Set(restored.map(({ name }) => name)),
    at: { source: container.parts[0]?.label ?? format.id },
  });
  const reason = "tare.origin holds it in a form that is not known here";
  const losses = [...unreadable.map((name) => ({ name, reason })), ...(renamed?.losses ?? [])];
  const selected = {
    metadata: options.overlay === undefined ? own : overlayMetadata(own, options.overlay),
    tensors: renamed?.tensors ?? earlier.tensors,
    chain: renamed === undefined ? earlier.chain : renameInChain(earlier.chain, newNames(earlier.tensors, renamed)),
    ...(losses.length === 0 ? {} : { losses }),
  };
  return { selected, whole: restored };
}

/** Names that changed, of the tensors that were not left out. */
function newNames(before: readonly Tensor[], { tensors, losses }: Checkpoint): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  const left = new Set(losses.map(({ name }) => name));
  const kept = before.filter(({ name }) => !left.has(name));
  if (kept.length !== tensors.length) return names;
  for (const [i, { name }] of kept.entries()) {
    const now = tensors[i]?.name ?? name;
    if (now !== name) names.set(name, now);
  }
  return names;
}

function decodeCarried(encoded: EncodedValue, formats: readonly ValueDecoder[]): MetadataValue | undefined {
  for (const format of formats) {
    const value = format.decodeValue?.(encoded);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Gives tensors that a format could only hold as bytes their type and shape back, where the sizes still agree. */
function restoreTensors(tensors: readonly Tensor[], carried: readonly CarriedTensor[]): readonly Tensor[] {
  if (carried.length === 0) return tensors;
  const byName = new Map(carried.map(([name, dtype, shape]) => [name, { dtype, shape }]));
  return tensors.map((tensor) => {
    const was = byName.get(tensor.name);
    if (was === undefined || !isDType(was.dtype)) return tensor;
    const at: Location = { source: tensor.file ?? tensor.name, path: tensor.name };
    // Where it does not fit, somebody damaged the origin: the bytes are still what the file says they are.
    return fitsBytes(was.dtype, was.shape, tensor.byteLength, at)
      ? tensor.with({ dtype: was.dtype, shape: was.shape })
      : tensor;
  });
}

/** True where so many bytes can be that type and shape: rows may end inside a block, as they do in APR. */
function fitsBytes(dtype: DType, shape: Shape, byteLength: number, at: Location): boolean {
  try {
    const needed = byteLengthOf(dtype, shape, at);
    return needed === undefined || needed === byteLength;
  } catch (error) {
    if (!isTareError(error)) throw error;
    return error.code === "format/dtype.partial-block" && unevenLayout({ dtype, shape, byteLength }) !== undefined;
  }
}

/** Throws `unsupported/lossy` where there are any; `what` is what cannot be done without them. */
export function refuseLosses(losses: readonly Loss[], what: string, label: string): void {
  if (losses.length === 0) return;
  const shown = losses.slice(0, 3).map(({ name, reason }) => `"${name}" (${reason})`);
  const more = losses.length > 3 ? ` and ${losses.length - 3} more` : "";
  const message = `Cannot ${what} without loss: ${shown.join(", ")}${more}`;
  const at = losses[0]?.at ?? { source: label };
  const hint = losses.every((loss) => loss.at !== undefined) ? STRAY_HINT : NAMED_HINT;
  throw new UnsupportedError("unsupported/lossy", message, at, { hint });
}

/** Nothing names them, so nothing can exclude them, and there is no format that would take them. */
const STRAY_HINT =
  'Tensors and metadata do not need these bytes, and no format has a place for them: "tare map" shows where they lie; pass --allow-lossy to go on without them, and keep the file if they matter';
const NAMED_HINT =
  "Leave tensors out with tare convert --exclude, choose another format, or accept the loss with --allow-lossy";

function labelOf({ container, format }: Opened): string {
  return container.parts[0]?.label ?? format.id;
}

/** Values of one JSON file; no configuration has more. */
const MAX_VALUES = 4_000_000;

/** A JSON object whose members are laid over a model's metadata. */
export interface MetadataOverlay {
  readonly entries: readonly MetadataEntry[];
}

/** Reads the overlay; refuses what is not one JSON object. */
export function decodeOverlay(bytes: Bytes, label: string): MetadataOverlay {
  const place = { source: label, offset: 0, maxValues: MAX_VALUES, what: "the metadata to lay over" };
  return { entries: decodeMetadataJson(bytes, place).entries };
}

/**
 * The metadata with the overlay's members set. A model's configuration, as Hugging Face keeps it beside the weights, has
 * neither `architecture` as an object nor `apr_version`: all of it becomes `architecture`, its `model_type` also the
 * model's.
 */
export function overlayMetadata(metadata: Metadata, { entries }: MetadataOverlay): Metadata {
  const own = new Metadata(entries);
  const isOverlay = own.get("apr_version") !== undefined || own.get("architecture")?.type === "map";
  if (isOverlay) return entries.reduce((laid, { key, value }) => laid.with(key, value), metadata);
  const type = own.text("model_type") ?? metadata.text("model_type") ?? "unknown";
  return metadata.with("model_type", stringValue(type)).with("architecture", { type: "map", entries });
}
