import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { DEFAULT_PAGE_BYTES, type ModelContent, type WriteOptions, type WritePlan } from "../../model/format.ts";
import { type MetadataEntry, type MetadataValue, stringValue } from "../../model/metadata.ts";
import { type OriginFacts, type OriginLink, splitChain } from "../../model/origin/origin.ts";
import { renderJsonObject } from "../aero/chunks/metadata.ts";
import { encodeTensorIndex, measureTensorIndex, type TensorRow } from "../aero/chunks/tidx.ts";
import { HASH_BYTES } from "../aero/layout.ts";
import { type AeroImage, type AeroOptions, planImage, resolveOptions } from "../aero/plan.ts";
import { type PlannedShard, planShards } from "../aero/write/layout.ts";
import { planMetadata } from "../aero/write/metadata.ts";
import { planTensors, type StoredTensor } from "../aero/write/tensors.ts";
import { planNames } from "./index.ts";
import { AEROSET_LIMITS } from "./limits.ts";
import { parseSetFacts, type SetFacts } from "./origin.ts";
import { encodeSetFile, type SetCache, type SetFile } from "./set-file.ts";

/** The options for the files of a set. */
interface SetOptions {
  /** For every part; the index uses those that apply to a file without weights. */
  readonly aero: AeroOptions;
  readonly maxPartShards: number;
  /** Tensors per shard and shards per part of the original set, unless the caller wants another cut. */
  readonly cut: { readonly shards: readonly number[]; readonly parts: readonly number[] } | undefined;
  readonly baseUrl: string | undefined;
  /** Hints of the original set. */
  readonly cache: SetCache | undefined;
  /** A uuid that the caller did not give may be replaced by the one of an interrupted run. */
  readonly uuid: "given" | "random";
}

/** The reference writer's default (docs/formats/aeroset.md#writing): with shards of 2 GiB, parts of 8 GiB. */
const DEFAULT_PART_SHARDS = 4;

/** Refuses options that make no sense with a UsageError. All hashes are always on: remote reads rely on them. */
export function resolveSetOptions(options: WriteOptions, facts?: SetFacts): SetOptions {
  const { maxPartShards = DEFAULT_PART_SHARDS, baseUrl } = options;
  if (!Number.isSafeInteger(maxPartShards) || maxPartShards < 1) {
    const message = `Cannot put ${maxPartShards} shards into a part: must be a whole number above 0`;
    throw new UsageError("usage/aeroset.part-shards", message, { source: "shards of a part" });
  }
  if (baseUrl !== undefined) checkBaseUrl(baseUrl);
  const { pageBytes = DEFAULT_PAGE_BYTES, control = "control" } = options.hashes ?? {};
  const hashes = { pageBytes, tensors: "tensors" as const, control };
  const { uuid = facts?.uuid, align = facts?.align } = options;
  return {
    aero: resolveOptions({ ...options, uuid, align, hashes }, {}),
    maxPartShards,
    cut: cutOf(options, facts),
    baseUrl,
    cache: facts?.cache,
    uuid: uuid === undefined ? "random" : "given",
  };
}

function cutOf({ maxShardBytes, maxPartShards }: WriteOptions, facts: SetFacts | undefined): SetOptions["cut"] {
  const { shards, parts } = facts ?? {};
  const isAsked = maxShardBytes !== undefined || maxPartShards !== undefined;
  return isAsked || shards === undefined || parts === undefined ? undefined : { shards, parts };
}

/** The address goes into a published file: readers must be able to add a name to it, and it must hold no secrets. */
function checkBaseUrl(text: string): void {
  const fault = findUrlFault(text);
  if (fault === undefined) return;
  const message = `Cannot publish a set under this base URL: ${fault}`;
  throw new UsageError("usage/aeroset.base-url", message, { source: "base URL" });
}

function findUrlFault(text: string): string | undefined {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return "it must be a full address";
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return "it must begin with http:// or https://";
  if (url.username !== "" || url.password !== "") return "it must not hold a user name or password";
  if (text.includes("?") || text.includes("#")) return "it must not hold a query or a fragment";
  return undefined;
}

/** A write with every name, place and length decided; `writeAeroset` computes the digests. */
export interface AerosetPlan extends WritePlan {
  readonly set: SetImage;
}

/** One .aero file of the set. */
export interface FileImage {
  readonly name: string;
  readonly image: AeroImage;
}

/** What the JSON says about the model. */
interface SetModelName {
  readonly name: string;
  readonly architecture: string;
}

/** The set that will be written. */
export interface SetImage {
  /** In the order of their shards, which is also the order of the index. */
  readonly parts: readonly FileImage[];
  /** Everything except the weights. */
  readonly index: FileImage;
  readonly model: SetModelName;
  readonly baseUrl: string | undefined;
  readonly cache: SetOptions["cache"];
  readonly uuid: SetOptions["uuid"];
}

/** Placeholder for a digest that is not known yet: every SHA-256 has this length. */
const NO_SHA256 = "0".repeat(64);

/**
 * Plans shards over the whole model, consecutive groups of them as parts, and one index. Pure, except for a random uuid
 * if none is given.
 */
export function planAeroset(content: ModelContent, options: WriteOptions): AerosetPlan {
  const { own, facts, chain } = ownHistory(content.chain);
  const chosen = resolveSetOptions(options, own && parseSetFacts(own, content.tensors.length));
  const { stored, carried, descriptors, losses } = planTensors(content.tensors, facts);
  const { text, name, architecture } = planMetadata({
    metadata: content.metadata,
    chain,
    tensors: carried,
    descriptors,
    folder: options.folder,
  });
  const model = { name, architecture };
  // If a tensor cannot be stored, the counts of the original set no longer add up.
  const cut = stored.length === content.tensors.length ? chosen.cut : undefined;
  const { rows, shards } = placeRows(stored, chosen.aero, cut?.shards);
  const groups = groupShards(shards, cut?.parts ?? evenParts(shards.length, chosen.maxPartShards));
  checkCounts(shards.length, groups.length);
  const names = planNames(options.name);
  const tensors = stored.map(({ tensor }) => tensor);
  const parts = groups.map((group, number): FileImage => {
    const json = partMetadata({ model, descriptors, number });
    const { start, end } = group.range;
    const own = { rows: rows.slice(start, end), tensors: tensors.slice(start, end) };
    return planPart({ ...group, ...own, json, model, name: names.part(number) }, chosen.aero);
  });
  const hashes = rows.map(() => NO_HASH);
  const index = planIndex({ rows, hashes, json: encodeUtf8(text), model, name: names.index }, chosen.aero);
  const { baseUrl, cache, uuid } = chosen;
  const set: SetImage = { parts, index, model, baseUrl, cache, uuid };
  return {
    files: [...[...parts, index].map(sizeOf), { name: options.name, byteLength: measureSetFile(set) }],
    primary: options.name,
    resumes: [...parts, index].map(({ name }) => name),
    losses,
    notes: planNotes(set, carried.length),
    set,
  };
}

/** What an AERO file or a set remembers about itself, and what to keep for the way back to other formats. */
export function ownHistory(chain: readonly OriginLink[]): {
  /** Facts of the original set. */
  readonly own: OriginFacts | undefined;
  /** Facts of the newest file of AERO's family: its types have the numbers that are written. */
  readonly facts: OriginFacts | undefined;
  readonly chain: readonly OriginLink[];
} {
  const { own, keep } = splitChain(chain, "aeroset");
  const facts = chain.find(({ format }) => format === "aeroset" || format === "aero")?.facts;
  return { own, facts, chain: keep.filter(({ format }) => format !== "aeroset") };
}

function placeRows(
  stored: readonly StoredTensor[],
  { align, maxShardBytes }: AeroOptions,
  counts: readonly number[] | undefined,
): { readonly rows: readonly TensorRow[]; readonly shards: readonly PlannedShard[] } {
  const lengths = stored.map(({ tensor }) => tensor.byteLength);
  const { placements, shards } = planShards(lengths, { align, maxShardBytes, counts });
  const rows = stored.map((item, i) => rowOf(item, placements[i] ?? { shardId: 0, dataOff: 0 }));
  return { rows, shards };
}

/** The row of a tensor at this place in the index. */
export function rowOf(
  { tensor, dtype, quantId, quantParams }: StoredTensor,
  { shardId, dataOff }: Pick<TensorRow, "shardId" | "dataOff">,
): TensorRow {
  const { name, shape, byteLength } = tensor;
  return { name, dtype, shape, shardId, dataOff, dataLen: byteLength, quantId, quantParams };
}

interface ShardGroup {
  readonly shards: readonly PlannedShard[];
  readonly shardIds: readonly number[];
  /** The rows of the index that are in them. */
  readonly range: { readonly start: number; readonly end: number };
}

/** Parts of `maxPartShards` shards; the last one takes the rest. */
function evenParts(shardCount: number, maxPartShards: number): number[] {
  const parts: number[] = [];
  for (let left = shardCount; left > 0; left -= maxPartShards) parts.push(Math.min(left, maxPartShards));
  return parts;
}

function groupShards(shards: readonly PlannedShard[], parts: readonly number[]): ShardGroup[] {
  let first = 0;
  let start = 0;
  return parts.map((shardCount) => {
    const own = shards.slice(first, first + shardCount);
    const shardIds = own.map((_, i) => first + i);
    const end = own.reduce((sum, { tensorCount }) => sum + tensorCount, start);
    const range = { start, end };
    first += shardCount;
    start = end;
    return { shards: own, shardIds, range };
  });
}

/** What a part says about itself: enough to be useful alone. The index has the model's own metadata. */
export function partMetadata(part: {
  readonly model: SetModelName;
  readonly descriptors: MetadataValue | undefined;
  readonly number: number;
}): Bytes {
  const { model, descriptors, number } = part;
  const entries: MetadataEntry[] = [
    { key: "model_name", value: stringValue(model.name) },
    { key: "architecture", value: stringValue(model.architecture) },
    { key: "aeroset_part", value: { type: "i64", value: number } },
  ];
  if (descriptors !== undefined) entries.push({ key: "quant_descriptors", value: descriptors });
  return encodeUtf8(renderJsonObject(entries));
}

/** What a part consists of. */
interface PartContent extends Pick<AeroImage, "rows" | "tensors" | "shards" | "shardIds" | "json"> {
  readonly name: string;
  readonly model: SetModelName;
}

export function planPart({ name, ...content }: PartContent, chosen: AeroOptions): FileImage {
  const indexBytes = measureTensorIndex(content.rows, "hashed");
  return { name, image: planImage({ ...content, indexBytes }, chosen, name) };
}

/** Placeholder for a tensor's digest until it is known. */
export const NO_HASH: Bytes = new Uint8Array(HASH_BYTES);

/** What the index consists of; `hashes` has undefined for a tensor without a digest. */
interface IndexContent {
  readonly name: string;
  readonly model: SetModelName;
  readonly json: Bytes;
  readonly rows: readonly TensorRow[];
  readonly hashes: readonly (Bytes | undefined)[];
}

/** A file with all tensors and no shard. */
export function planIndex({ name, model, json, rows, hashes }: IndexContent, chosen: AeroOptions): FileImage {
  const indexBytes = encodeTensorIndex(rows, hashes).byteLength;
  const content = { rows, json, model, indexBytes, tensors: [], shards: [], shardIds: [] };
  return { name, image: planImage(content, { ...chosen, pageBytes: undefined }, name) };
}

function sizeOf({ name, image }: FileImage): { readonly name: string; readonly byteLength: number } {
  return { name, byteLength: image.layout.fileBytes };
}

function measureSetFile({ parts, index, model, baseUrl, cache }: SetImage): number {
  const entry = ({ name, image }: FileImage) => ({ path: name, sha256: NO_SHA256, sizeBytes: image.layout.fileBytes });
  return encodeSetFile({
    model,
    ...(baseUrl === undefined ? {} : { baseUrl }),
    parts: parts.map((part) => ({ ...entry(part), shards: part.image.shardIds })),
    globalIndex: entry(index),
    ...(cache === undefined ? {} : { cache }),
  } satisfies Omit<SetFile, "version">).byteLength;
}

/** Refuses to write a set that our own reader would refuse. */
function checkCounts(shardCount: number, partCount: number): void {
  const { parts, shards } = AEROSET_LIMITS;
  if (partCount <= parts.default && shardCount <= shards.default) return;
  const message = `Cannot write a set of ${partCount} parts with ${shardCount} shards: must be at most ${parts.default} and ${shards.default}`;
  const hint = "Choose a larger shard size, or more shards in a part";
  throw new UsageError("usage/aeroset.parts", message, { source: "shard size" }, { hint });
}

function planNotes({ parts }: SetImage, carriedCount: number): string[] {
  const shardCount = parts.reduce((sum, { image }) => sum + image.shardIds.length, 0);
  const notes = [`${count(shardCount, "shard")} in ${count(parts.length, "part")}`];
  if (carriedCount > 0) {
    notes.push(
      `${count(carriedCount, "tensor")} of types that AERO lacks are stored as packed; tare.origin says what they are`,
    );
  }
  return notes;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
