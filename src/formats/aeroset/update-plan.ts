import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { decodeHex, encodeHex } from "../../base/hex.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { ModelContent, WriteOptions } from "../../model/format.ts";
import type { Json, OriginFacts } from "../../model/origin.ts";
import { equalShapes } from "../../model/shape.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { TensorRow } from "../aero/chunks/tidx.ts";
import { describeAero } from "../aero/origin.ts";
import { planShards } from "../aero/write/layout.ts";
import { planMetadata } from "../aero/write/metadata.ts";
import { planTensors, type StoredTensor } from "../aero/write/tensors.ts";
import type { PartFile } from "./parts.ts";
import { type FileImage, NO_HASH, ownHistory, partMetadata, planIndex, planPart, rowOf } from "./plan.ts";
import { planNames } from "./plan-names.ts";
import { resolveSetOptions } from "./plan-options.ts";
import type { SetModel } from "./set-model.ts";
import { findPart } from "./update-match.ts";

/** One part of a set, replaced: every decision, made before the first byte. */
export interface UpdatePlan {
  readonly set: SetModel;
  readonly old: PartFile;
  readonly part: FileImage;
  readonly index: FileImage;
  /** Digests of the index's rows; those of the new part come with writing it. */
  readonly hashes: readonly (Bytes | undefined)[];
  /** Which rows of the index are those of the part, in its order. */
  readonly places: readonly number[];
  /** Bytes of tensor data that will be copied. */
  readonly dataBytes: number;
  readonly notes: readonly string[];
}

export interface UpdateOptions extends Pick<WriteOptions, "align" | "uuid"> {
  /** Number or path of the part; found by its tensors where absent. */
  readonly part?: string | undefined;
  /** Name of the set's JSON, without folder. */
  readonly name: string;
}

/** The set and the file whose tensors take the place of a part's, as writers see them. */
export interface UpdateContent {
  readonly set: SetModel;
  /** The whole set. */
  readonly content: ModelContent;
  readonly replacement: ModelContent;
}

/**
 * Plans a part with other content under the same tensor names and shard numbers, and the index that goes with it. Types
 * and shapes may differ from before. Both files get new names, so that readers of the old JSON never see a mixture. Pure,
 * but for a random uuid where none is given.
 */
export function planUpdate({ set, content, replacement }: UpdateContent, options: UpdateOptions): UpdatePlan {
  const old = findPart(set, replacement.tensors, options.part);
  const { aero } = resolveSetOptions(options);
  const { facts, chain } = ownHistory(content.chain);
  const merged = mergeTensors({ set, content, replacement }, old);
  const { stored, carried, descriptors, losses } = planTensors(merged, {
    ...facts,
    quants: mergeQuants(set, replacement),
  });
  if (losses.length > 0 || stored.length !== merged.length) throw new Error("the set's own names were refused");
  const { text, name, architecture } = planMetadata({
    metadata: content.metadata,
    chain,
    tensors: carried,
    descriptors,
  });
  const model = { name, architecture };
  const { places, rows: ownRows, shards, shardIds } = placePart(set, old, { stored, align: aero.align });
  const rows = set.content.entries.map((entry, i): TensorRow => {
    return { ...rowOf(stored[i] as StoredTensor, entry), dataLen: entry.dataLen };
  });
  const hashes = set.content.entries.map(({ hash }) => (hash === undefined ? undefined : decodeHex(hash)));
  for (const [i, place] of places.entries()) {
    rows[place] = ownRows[i] as TensorRow;
    hashes[place] = NO_HASH;
  }
  const tag = encodeHex(aero.uuid).slice(0, TAG_DIGITS);
  const names = planNames(options.name);
  const tensors = places.map((place) => merged[place] as Tensor);
  const json = partMetadata({ model, descriptors, number: old.number });
  const partName = tagName(old.entry.path, names.part(old.number), tag);
  const indexName = tagName(set.content.file.globalIndex.path, names.index, tag);
  return {
    set,
    old,
    part: planPart({ name: partName, rows: ownRows, tensors, shards, shardIds, json, model }, aero),
    index: planIndex({ name: indexName, rows, hashes, json: encodeUtf8(text), model }, aero),
    hashes,
    places,
    dataBytes: tensors.reduce((sum, { byteLength }) => sum + byteLength, 0),
    notes: changeNotes(set, tensors),
  };
}

/** Of the uuid, in the names of replaced files: enough that no two updates of one set meet. */
const TAG_DIGITS = 8;

/** "part-001.aero" becomes "part-001.0123abcd.aero", an earlier tag is replaced; an address gives way to a local name. */
function tagName(path: string, fallback: string, tag: string): string {
  const base = /^[a-z][a-z0-9+.-]*:\/\//i.test(path) ? fallback : path;
  return `${base.replace(/\.aero$/i, "").replace(/\.[0-9a-f]{8}$/, "")}.${tag}.aero`;
}

/** All tensors in the order of the index, those of the part from the other file. */
function mergeTensors({ set, content, replacement }: UpdateContent, old: PartFile): readonly Tensor[] {
  const kept = new Map(content.tensors.map((tensor) => [tensor.name, tensor]));
  const added = new Map(replacement.tensors.map((tensor) => [tensor.name, tensor]));
  return set.content.entries.map((entry) => {
    const tensor = (set.partOf(entry) === old ? added : kept).get(entry.name);
    if (tensor !== undefined) return tensor;
    throw new UsageError("usage/aeroset.part-tensors", `Cannot find tensor "${entry.name}" in the content of the set`, {
      source: set.content.source.label,
    });
  });
}

/** What packed tensors say of themselves, from whichever file each one comes. */
function mergeQuants(set: SetModel, replacement: ModelContent): readonly Json[] {
  const names = new Set(replacement.tensors.map(({ name }) => name));
  const isOfPart = (row: Json): boolean => Array.isArray(row) && names.has(row[0] as string);
  const kept = quantsOf(describeAero(set.content.index)).filter((row) => !isOfPart(row));
  return [...kept, ...quantsOf(replacement.chain[0]?.facts).filter(isOfPart)];
}

function quantsOf(facts: OriginFacts | undefined): readonly Json[] {
  const quants = facts?.["quants"];
  return Array.isArray(quants) ? (quants as readonly Json[]) : [];
}

/** Tensors stay in the shards that they were in, under their numbers; only lengths may change. */
function placePart(
  set: SetModel,
  old: PartFile,
  { stored, align }: { readonly stored: readonly StoredTensor[]; readonly align: number },
) {
  const { entries } = set.content;
  const byShard = new Map<number, number[]>(old.entry.shards.map((id) => [id, []]));
  for (const [i, entry] of entries.entries()) {
    if (set.partOf(entry) === old) byShard.get(entry.shardId)?.push(i);
  }
  const filled = [...byShard].filter(([, members]) => members.length > 0);
  const places = filled.flatMap(([, members]) => members);
  const lengths = places.map((place) => (stored[place] as StoredTensor).tensor.byteLength);
  const counts = filled.map(([, members]) => members.length);
  const { placements, shards } = planShards(lengths, { align, maxShardBytes: Number.MAX_SAFE_INTEGER, counts });
  const rows = places.map((place, i) => {
    const { dataOff = 0 } = placements[i] ?? {};
    return rowOf(stored[place] as StoredTensor, { dataOff, shardId: entries[place]?.shardId ?? 0 });
  });
  return { places, rows, shards, shardIds: filled.map(([id]) => id) };
}

function changeNotes(set: SetModel, tensors: readonly Tensor[]): string[] {
  const changed = tensors.filter(({ name, dtype, shape }) => {
    const before = set.tensor(name);
    return before.dtype !== dtype || !equalShapes(before.shape, shape);
  });
  if (changed.length === 0) return [];
  const [first] = changed;
  const others = changed.length === 1 ? "" : ` and ${changed.length - 1} more`;
  return [`type or shape of "${first?.name}"${others} changes`];
}
