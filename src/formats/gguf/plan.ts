import { UsageError } from "../../base/errors.ts";
import { alignUp, isPowerOfTwo } from "../../base/integers.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { findOverlap } from "../../bytes/extents.ts";
import type { Output } from "../../bytes/sink.ts";
import type { ModelContent, WriteContext, WriteOptions, WritePlan } from "../../model/format.ts";
import { isBlocks, QUANTIZATION_VERSION, QUANTIZATION_VERSION_KEY } from "../../model/ggml/retyping.ts";
import type { Metadata, MetadataEntry } from "../../model/metadata.ts";
import { addedEntry, type Holding, packMetadata } from "../../model/origin/metadata.ts";
import {
  type CarriedTensor,
  encodeOrigin,
  ORIGIN_KEY,
  type OriginLink,
  splitChain,
} from "../../model/origin/origin.ts";
import { type Piece, type PlannedFile, writeFiles } from "../../model/pieces.ts";
import { headerPieces, type PlacedTensor } from "./header.ts";
import { ALIGNMENT_KEY, ARCHITECTURE_KEY, DEFAULT_ALIGNMENT, SPLIT_KEYS, tensorTypeId } from "./layout.ts";
import { GGUF_LIMITS } from "./limits.ts";
import { type GgufFacts, linkFacts, parseFacts } from "./origin.ts";
import { baseName, partName, splitFacts } from "./split.ts";
import { planTensors, type StoredTensor } from "./tensors.ts";
import { GGUF_ENCODING, hasGgufType } from "./values.ts";

/** A planned write; every byte is decided except those of the tensors. */
export interface GgufPlan extends WritePlan {
  readonly files: readonly PlannedFile[];
}

/** `split.count` is stored as u16. */
const MAX_SHARDS = 0xffff;

/** Plans one file, or a set of split files if `maxShardBytes` requires it. Pure. */
export function planGguf(content: ModelContent, options: WriteOptions): GgufPlan {
  const { own, keep } = splitChain(content.chain, "gguf");
  const facts = parseFacts(own);
  // Older GGUF links are no longer needed once this file is written.
  const chain = keep.filter(({ format }) => format !== "gguf");
  const metadata = withAlignment(content.metadata, options.align);
  const alignment = alignmentOf(metadata.get(ALIGNMENT_KEY)) ?? DEFAULT_ALIGNMENT;
  const { stored, carried, disguised, leftOut } = planTensors(content.tensors);
  const shards = cutShards(stored, alignment, options.maxShardBytes);
  const kept = {
    chain,
    tensors: carried,
    originIndex: facts.originIndex,
    emptyKey: facts.emptyKey,
    added: facts.unversioned === undefined ? versionEntries(metadata, stored) : [],
    splitKeys: splitKeysHolding(metadata, facts, shards.length),
  };
  const files =
    shards.length > 1
      ? planSet(shards, metadata, { facts, kept, alignment, name: options.name })
      : [planFile(options.name, { facts, entries: planEntries(metadata, kept), stored, alignment })];
  // A tensor that a GGUF file already disguised is no loss when it becomes a GGUF file again.
  const losses = content.chain[0]?.format === "gguf" ? leftOut : [...disguised, ...leftOut];
  return {
    files,
    primary: files[0]?.name ?? options.name,
    losses,
    notes: planNotes(content, own?.["byteOrder"] === "big"),
  };
}

/** Writes what `planGguf` planned. */
export function writeGguf(plan: GgufPlan, output: Output, context: WriteContext): Promise<void> {
  return writeFiles(plan.files, output, context);
}

/** llama.cpp needs the version of the blocks; a model from elsewhere does not state it. */
function versionEntries(metadata: Metadata, stored: readonly StoredTensor[]): readonly MetadataEntry[] {
  if (metadata.get(QUANTIZATION_VERSION_KEY) !== undefined) return [];
  const hasBlocks = stored.some(
    ({ tensor, typeId }) => isBlocks(tensor.dtype) && tensorTypeId(tensor.dtype) === typeId,
  );
  return hasBlocks ? [{ key: QUANTIZATION_VERSION_KEY, value: QUANTIZATION_VERSION }] : [];
}

function withAlignment(metadata: Metadata, align: number | undefined): Metadata {
  if (align === undefined) return metadata;
  if (!isPowerOfTwo(align) || align > GGUF_LIMITS.alignment.default) {
    const message = `Cannot align GGUF data to ${align} bytes: must be a power of two from 1 to ${GGUF_LIMITS.alignment.default}`;
    throw new UsageError("usage/gguf.align", message, { source: "align" });
  }
  return metadata.with(ALIGNMENT_KEY, { type: "u32", value: align });
}

/**
 * The model's own `split.*` keys are carried where readers would take them for those of the file: in a set, and in a file
 * that they would make a part of one.
 */
function splitKeysHolding(metadata: Metadata, { part }: GgufFacts, shardCount: number): "native" | "carried" {
  if (shardCount > 1) return "carried";
  return part === true || splitFacts(metadata) === undefined ? "native" : "carried";
}

/** Consecutive tensors per file; a tensor that is larger than the limit gets its own file. */
function cutShards(
  stored: readonly StoredTensor[],
  alignment: number,
  maxBytes: number | undefined,
): readonly (readonly StoredTensor[])[] {
  if (maxBytes === undefined) return [stored];
  const shards: StoredTensor[][] = [];
  let room = -1;
  for (const item of stored) {
    const byteLength = alignUp(item.tensor.byteLength, alignment);
    if (shards.length === 0 || byteLength > room) {
      shards.push([]);
      room = maxBytes;
    }
    shards.at(-1)?.push(item);
    room -= byteLength;
  }
  if (shards.length <= MAX_SHARDS) return shards.length === 0 ? [stored] : shards;
  const message = `Cannot split into ${shards.length} files: must be at most ${MAX_SHARDS}`;
  throw new UsageError("usage/gguf.shards", message, { source: "max-size" }, { hint: "Choose a larger shard size" });
}

interface SetContent {
  readonly facts: GgufFacts;
  readonly kept: Parameters<typeof planEntries>[1];
  readonly alignment: number;
  readonly name: string;
}

/** Parts as llama-gguf-split makes them: all metadata in the first, and in each the split keys at the end. */
function planSet(shards: readonly (readonly StoredTensor[])[], metadata: Metadata, set: SetContent): PlannedFile[] {
  const { facts, kept, alignment } = set;
  const link = linkFacts(facts);
  const chain = link === undefined ? kept.chain : [{ format: "gguf", facts: link }, ...kept.chain];
  const entries = planEntries(metadata, { ...kept, chain });
  // A part's layout follows its own general.alignment, which llama-gguf-split forgets in later parts.
  const alignmentEntry = entries.filter(({ key }) => key === ALIGNMENT_KEY);
  const tensorCount = shards.reduce((sum, shard) => sum + shard.length, 0);
  const base = baseName(set.name);
  return shards.map((stored, no) => {
    const place = splitEntries(no, shards.length, tensorCount);
    const own = [...(no === 0 ? entries : alignmentEntry), ...place];
    const name = partName(base, no, shards.length);
    return planFile(name, { facts: { version: facts.version }, entries: own, stored, alignment });
  });
}

function splitEntries(no: number, count: number, tensorCount: number): MetadataEntry[] {
  return [
    { key: "split.no", value: { type: "u16", value: no } },
    { key: "split.tensors.count", value: { type: "i32", value: tensorCount } },
    { key: "split.count", value: { type: "u16", value: count } },
  ];
}

interface FileContent {
  readonly facts: GgufFacts;
  readonly entries: readonly MetadataEntry[];
  readonly stored: readonly StoredTensor[];
  readonly alignment: number;
}

function planFile(name: string, { facts, entries, stored, alignment }: FileContent): PlannedFile {
  const tensors = placeTensors(stored, alignment, facts.offsets);
  const header = headerPieces({ version: facts.version, entries, tensors });
  const dataStart = tensors.length === 0 ? header.byteLength : alignUp(header.byteLength, alignment);
  const pieces: Piece[] = [...header.pieces, { kind: "zeros", byteLength: dataStart - header.byteLength }];
  let position = 0;
  for (const { tensor, offset } of [...tensors].sort((a, b) => a.offset - b.offset)) {
    // An empty tensor may have the same offset as another tensor. It needs no padding and moves nothing.
    pieces.push({ kind: "zeros", byteLength: Math.max(0, offset - position) });
    pieces.push({ kind: "tensor", tensor });
    position = Math.max(position, offset + tensor.byteLength);
  }
  // Writers also pad after the last tensor, even if there is none.
  const padding = alignUp(dataStart + position, alignment) - dataStart - position;
  const { tail } = facts;
  const unpadded = tail !== undefined && tail.dataBytes === position && tail.byteLength < padding;
  const tailBytes = unpadded ? tail.byteLength : padding;
  pieces.push({ kind: "zeros", byteLength: tailBytes });
  const byteLength = dataStart + position + tailBytes;
  return { name, byteLength, pieces: pieces.filter((piece) => piece.kind !== "zeros" || piece.byteLength > 0) };
}

/** Packed in order; or at the offsets that the file had, if they still fit. */
function placeTensors(
  stored: readonly StoredTensor[],
  alignment: number,
  offsets: readonly number[] | undefined,
): readonly PlacedTensor[] {
  if (offsets?.length === stored.length && offsets.every((offset) => offset % alignment === 0)) {
    const placed = stored.map((item, i) => ({ ...item, offset: offsets[i] as number }));
    const extents = placed.map(({ offset, tensor }) => ({ offset, byteLength: tensor.byteLength }));
    if (findOverlap(extents) === undefined && !hasWideGap(extents, alignment)) return placed;
  }
  let position = 0;
  return stored.map((item) => {
    const offset = position;
    position = alignUp(offset + item.tensor.byteLength, alignment);
    return { ...item, offset };
  });
}

/** Removed tensors leave holes that should not come back. A hole of an eighth is not layout any more. */
function hasWideGap(
  extents: readonly { readonly offset: number; readonly byteLength: number }[],
  alignment: number,
): boolean {
  const used = extents.reduce((sum, { byteLength }) => sum + alignUp(byteLength, alignment), 0);
  const end = extents.reduce((most, { offset, byteLength }) => Math.max(most, offset + byteLength), 0);
  return end > used * 1.125 + 64 * alignment;
}

function planNotes(content: ModelContent, wasBigEndian: boolean): string[] {
  const notes: string[] = [];
  // A GGUF that is split or merged has the same content as before: nothing new to note.
  const isNew = content.chain[0]?.format !== "gguf";
  if (isNew && content.tensors.length > 0 && content.metadata.get(ARCHITECTURE_KEY) === undefined) {
    notes.push(
      "No tokenizer and no hyper-parameters are in this file, so llama.cpp will not run it; tare and other readers of tensors will",
    );
  }
  if (wasBigEndian) notes.push("The file was big-endian; this one is little-endian");
  return notes;
}

interface KeptForOthers {
  readonly chain: readonly OriginLink[];
  readonly tensors: readonly CarriedTensor[];
  /** Index of `tare.origin`; at the end if absent. */
  readonly originIndex?: number | undefined;
  /** Present if the model was a GGUF with an empty key. */
  readonly emptyKey?: true | undefined;
  /** Keys that llama.cpp needs although the model does not state them. */
  readonly added?: readonly MetadataEntry[] | undefined;
  readonly splitKeys: "native" | "carried";
}

/** The entries to write: native ones, and `tare.origin` if anything has to be kept in it. */
function planEntries(metadata: Metadata, kept: KeptForOthers): readonly MetadataEntry[] {
  const { chain, tensors, added = [], splitKeys } = kept;
  const holdingOf = (entry: MetadataEntry): Holding => {
    if (splitKeys === "carried" && SPLIT_KEYS.some((key) => key === entry.key)) return "none";
    // llama.cpp refuses an empty key, so it stays only if a GGUF file already had it.
    const isKept = entry.key !== "" || kept.emptyKey === true || entry.value.encoded?.encoding === GGUF_ENCODING;
    return isKept ? holdingByRule(entry) : "none";
  };
  let packed = packMetadata(metadata, holdingOf);
  if (packed.entries === undefined && chain.length === 0 && tensors.length === 0) return [...packed.native, ...added];
  // A foreign value under our key must not appear next to ours.
  if (metadata.get(ORIGIN_KEY) !== undefined) {
    packed = packMetadata(metadata, (entry) => (entry.key === ORIGIN_KEY ? "none" : holdingOf(entry)));
  }
  const own = added.length === 0 ? packed.entries : (packed.entries ?? packed.native.map(({ key }) => [key] as const));
  const listed = own === undefined ? undefined : [...own, ...added.map(({ key, value }) => addedEntry(key, value))];
  const text = encodeOrigin({
    chain,
    ...(listed === undefined ? {} : { entries: listed }),
    ...(tensors.length === 0 ? {} : { tensors }),
  });
  const entries = [...packed.native, ...added];
  const index = Math.min(kept.originIndex ?? entries.length, entries.length);
  entries.splice(index, 0, { key: ORIGIN_KEY, value: { type: "string", value: text } });
  return entries;
}

function holdingByRule({ key, value }: MetadataEntry): Holding {
  if (!hasGgufType(value) || !isGgufKey(key)) return "none";
  // A general.alignment that no reader would accept must not reach the file under that key.
  if (key === ALIGNMENT_KEY && alignmentOf(value) === undefined) return "none";
  return "native";
}

function isGgufKey(key: string): boolean {
  return (
    !/\p{Surrogate}/u.test(key) && (key.length * 3 <= MAX_KEY_BYTES || encodeUtf8(key).byteLength <= MAX_KEY_BYTES)
  );
}

const MAX_KEY_BYTES = GGUF_LIMITS.keyBytes.default;

/** The alignment that a value of `general.alignment` sets; undefined if readers would refuse it. */
function alignmentOf(value: MetadataEntry["value"] | undefined): number | undefined {
  if (value?.type !== "u32") return undefined;
  const alignment = Number(value.value);
  return isPowerOfTwo(alignment) && alignment <= GGUF_LIMITS.alignment.default ? alignment : undefined;
}
