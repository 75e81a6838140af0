import { isTareError, type Location, UsageError } from "../../base/errors.ts";
import type { Shape } from "../../model/dtype.ts";
import { byteLengthOf, type DType, isDType } from "../../model/dtype.ts";
import type { FormatWriter, ModelContent, Opened, ValueDecoder, WriteOptions } from "../../model/format.ts";
import type { Checkpoint } from "../../model/ggml/hugging-face.ts";
import type { ConvertedModel } from "../../model/ggml/layers-and-heads.ts";
import { retypedMetadata } from "../../model/ggml/retyping.ts";
import type { EncodedValue, MetadataValue } from "../../model/metadata.ts";
import { decodeJsonNumber } from "../../model/metadata-json.ts";
import { restoreEarlier } from "../../model/origin/earlier-form.ts";
import { restoreMetadata } from "../../model/origin/metadata.ts";
import {
  type CarriedTensor,
  type OriginLink,
  renameInChain,
  restoreOrder,
  takeOrigin,
} from "../../model/origin/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { unevenLayout } from "../../model/values/block-rows.ts";
import { castTensor, type FloatTarget, isCastable, type OnUnfit } from "../../model/values/casts.ts";
import { isTaken, type NameSelection, requireMatches } from "../reading/glob.ts";
import { type GivenMetadata, withGiven } from "./given-metadata.ts";

export interface ConversionOptions extends WriteOptions, NameSelection {
  /** Rounds every floating-point tensor to this type. */
  readonly dtype?: FloatTarget | undefined;
  /** Renames the tensors that are taken, and changes values if the new names require it: huggingFaceCheckpoint. */
  readonly rename?: ((model: ConvertedModel) => Checkpoint) | undefined;
  /** Applied to each tensor that is taken: quantising, for example. */
  readonly transform?: ((tensor: Tensor, onUnfit?: OnUnfit | undefined) => Tensor) | undefined;
  /** Patterns of tensors that `transform` leaves as they are. Each must match one. */
  readonly keep?: readonly string[] | undefined;
  /** Laid over the metadata before it is written. */
  readonly given?: GivenMetadata | undefined;
  /**
   * The formats that the content has been in (originFormats), so that values carried from them can be decoded. The
   * formats of the source and of the target need not be listed. A value that none of them decodes is a loss.
   */
  readonly formats: readonly ValueDecoder[];
}

/** The content that a writer gets: filtered, cast, and with everything restored that earlier conversions carried. */
export function contentOf(opened: Opened, options: ConversionOptions, target?: FormatWriter): ModelContent {
  const selection = selectedContent(opened, options, target);
  return castContent(selection.selected, selection, options);
}

export function castContent(
  content: ModelContent,
  { whole, label }: Pick<Selection, "whole" | "label">,
  { dtype, transform, keep = [], onUnfit }: ConversionOptions,
): ModelContent {
  requireMatches(content.tensors, keep, label);
  const floats = content.tensors.map((tensor) => {
    return dtype !== undefined && isCastable(tensor, dtype) ? castTensor(tensor, dtype, onUnfit) : tensor;
  });
  const tensors = transform === undefined ? floats : floats.map((tensor) => transform(tensor, onUnfit));
  const beside = isSame(tensors, content.tensors) ? content.beside : undefined;
  return { ...content, tensors, beside, metadata: retypedMetadata(content, whole, tensors) };
}

function isSame(tensors: readonly Tensor[], others: readonly Tensor[]): boolean {
  return tensors.length === others.length && tensors.every((tensor, i) => tensor === others[i]);
}

export interface Selection {
  readonly selected: ModelContent;
  /** The tensors before anything was left out, renamed or prepared. The metadata describes these. */
  readonly whole: readonly Tensor[];
  /** Of the source, for errors. */
  readonly label: string;
}

export function selectedContent(
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
  const isUsual = reader.isUsual?.(facts) ?? Object.keys(facts).length === 0;
  const link: OriginLink = { format: format.id, facts, ...(isUsual ? {} : { stays: "unusual" }) };
  const chain = [link, ...(origin?.chain ?? [])];
  const formats = [...options.formats, reader];
  const decode = (encoded: EncodedValue): MetadataValue | undefined => decodeCarried(encoded, formats);
  const restored = restoreTensors(restoreOrder(container.tensors, origin?.order), origin?.tensors ?? []);
  const at = { source: container.parts[0]?.label ?? format.id };
  requireMatches(restored, [...(options.include ?? []), ...(options.exclude ?? [])], at.source);
  const tensors = restored.filter(({ name }) => isTaken(name, options));
  const none = { metadata, unreadable: [] };
  const carried = origin === undefined ? none : restoreMetadata(metadata, origin, decode);
  const earlier = restoreEarlier({ metadata: carried.metadata, tensors, chain }, target?.format.id, decode);
  const { metadata: own } = earlier;
  const unreadable = [...carried.unreadable, ...earlier.unreadable];
  const renamed = options.rename?.({
    metadata: own,
    tensors: earlier.tensors,
    names: new Set(restored.map(({ name }) => name)),
    at,
  });
  const reason = "tare.origin holds it in a form that is not known here";
  const losses = [...unreadable.map((name) => ({ name, reason })), ...(renamed?.losses ?? [])];
  const selected = {
    metadata: options.given === undefined ? own : withGiven(own, options.given, target),
    tensors: renamed?.tensors ?? earlier.tensors,
    chain: renamed === undefined ? earlier.chain : renameInChain(earlier.chain, newNames(earlier.tensors, renamed)),
    beside: renamed === undefined && isSame(earlier.tensors, restored) ? container.beside : undefined,
    ...(losses.length === 0 ? {} : { losses }),
    ...(earlier.notes === undefined ? {} : { notes: earlier.notes }),
  };
  return { selected, whole: restored, label: at.source };
}

/** The names that changed, of the tensors that were not left out. */
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
  return decodeJsonNumber(encoded); // that of every format with JSON
}

/** Restores type and shape of tensors that a format could only hold as bytes, if the sizes still agree. */
function restoreTensors(tensors: readonly Tensor[], carried: readonly CarriedTensor[]): readonly Tensor[] {
  if (carried.length === 0) return tensors;
  const byName = new Map(carried.map(([name, dtype, shape]) => [name, { dtype, shape }]));
  return tensors.map((tensor) => {
    const was = byName.get(tensor.name);
    if (was === undefined || !isDType(was.dtype)) return tensor;
    const at: Location = { source: tensor.file ?? tensor.name, path: tensor.name };
    // If it does not fit, the origin is damaged. The type that the file states is still right for the bytes.
    return fitsBytes(was.dtype, was.shape, tensor.byteLength, at)
      ? tensor.with({ dtype: was.dtype, shape: was.shape })
      : tensor;
  });
}

/** True if this many bytes fit that type and shape. Rows may end inside a block, as in APR. */
function fitsBytes(dtype: DType, shape: Shape, byteLength: number, at: Location): boolean {
  try {
    const needed = byteLengthOf(dtype, shape, at);
    return needed === undefined || needed === byteLength;
  } catch (error) {
    if (!isTareError(error)) throw error;
    return error.code === "format/dtype.partial-block" && unevenLayout({ dtype, shape, byteLength }) !== undefined;
  }
}
