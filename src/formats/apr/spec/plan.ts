import type { Bytes } from "../../../base/bytes.ts";
import { isTareError, UsageError } from "../../../base/errors.ts";
import { alignUp } from "../../../base/integers.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { ModelContent, WriteOptions, WritePlan } from "../../../model/format.ts";
import { type Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import { fingerprint, renderMetadata } from "../../../model/metadata-json.ts";
import {
  type CarriedEntry,
  type CarriedTensor,
  encodeOrigin,
  ORIGIN_KEY,
  type OriginLink,
  orderFor,
  restoreOrder,
} from "../../../model/origin.ts";
import { addedEntry, type Holding, packMetadata, retypeLike } from "../../../model/origin-metadata.ts";
import { APR_LIMITS } from "../limits.ts";
import { decodeMetadata } from "../metadata.ts";
import { layOutFront } from "./header.ts";
import { APR_VERSION, dtypeId, FILE_FLAGS, FIRST_QUANTIZED_ID, fileFooter } from "./layout.ts";
import { SHARD_KEY } from "./manifest.ts";
import { parseFacts, type SpecFacts, takeOwnFacts } from "./origin.ts";
import { compareNames, isWellFormed, planTensors, type StoredTensor } from "./tensors.ts";

interface MetadataContent {
  readonly metadata: Metadata;
  /** What others need to write their files again. */
  readonly chain: readonly OriginLink[];
  readonly tensors: readonly CarriedTensor[];
  readonly order: readonly number[] | undefined;
  /** Keys that the writer needs for itself; a value of the model under one of them is carried. */
  readonly reserved: readonly string[];
}

/** What stands in `model_type` where a model does not say what it is. */
const UNKNOWN_TYPE = "unknown";

/**
 * The members of the metadata object: the three required keys, every key of the model that JSON can say exactly, and
 * `tare.origin` with everything else, where there is anything.
 */
function planMetadata(content: MetadataContent): readonly MetadataEntry[] {
  const { metadata, chain, tensors, order } = content;
  const reserved = new Set([...content.reserved, ORIGIN_KEY]);
  const required = requiredEntries(metadata);
  const owned = new Map(required.map(({ key, value }) => [key, value]));
  const { native, entries } = packMetadata(metadata, ({ key, value }) => {
    const ours = owned.get(key);
    if (ours !== undefined && ours !== value) return "none";
    return reserved.has(key) || !isWellFormed(key) ? "none" : holdingOf(value);
  });
  const held = new Set(native.map(({ key }) => key));
  const added = required.filter(({ key }) => !held.has(key));
  const members = [...added, ...native];
  const unsaid = added.filter(({ key }) => metadata.get(key) === undefined);
  const carried: readonly CarriedEntry[] | undefined =
    entries === undefined && unsaid.length === 0
      ? undefined
      : [...(entries ?? native.map(({ key }) => [key] as const)), ...unsaid.map(({ key }) => addedEntry(key))];
  if (chain.length === 0 && carried === undefined && tensors.length === 0) return members;
  const origin = encodeOrigin({
    chain,
    ...(carried === undefined ? {} : { entries: carried }),
    ...(tensors.length === 0 ? {} : { tensors }),
    ...(order === undefined ? {} : { order }),
  });
  return [...members, { key: ORIGIN_KEY, value: stringValue(origin) }];
}

/** The model's own values where they have the types that the specification shows; else what is known of it. */
function requiredEntries(metadata: Metadata): readonly MetadataEntry[] {
  const version = metadata.get("apr_version");
  const type = metadata.get("model_type");
  const architecture = metadata.get("architecture");
  return [
    { key: "apr_version", value: isVersion2(version) ? version : stringValue(APR_VERSION) },
    { key: "model_type", value: isText(type) ? type : stringValue(modelType(metadata)) },
    {
      key: "architecture",
      value:
        architecture?.type === "map" && holdingOf(architecture) !== "none" ? architecture : hyperParameters(metadata),
    },
  ];
}

function isText(value: MetadataValue | undefined): value is MetadataValue & { readonly type: "string" } {
  return value?.type === "string" && value.raw === undefined && isWellFormed(value.value);
}

function isVersion2(value: MetadataValue | undefined): value is MetadataValue {
  return isText(value) && /^2(\.|$)/.test(value.value);
}

/** GGUF's key, then the string that other formats have under `architecture`. */
function modelType(metadata: Metadata): string {
  for (const key of ["general.architecture", "architecture"]) {
    const value = metadata.get(key);
    if (isText(value) && value.value !== "") return value.value;
  }
  return UNKNOWN_TYPE;
}

/** GGUF says them as "llama.block_count": the numbers and texts under the architecture's name, without it. */
function hyperParameters(metadata: Metadata): MetadataValue {
  const prefix = `${metadata.text("general.architecture") ?? ""}.`;
  const entries: MetadataEntry[] = [];
  for (const { key, value } of metadata) {
    if (prefix === "." || !key.startsWith(prefix) || value.type === "array" || value.type === "map") continue;
    const rest = key.slice(prefix.length);
    if (rest !== "" && isWellFormed(rest) && holdingOf(value) !== "none") entries.push({ key: rest, value });
  }
  return { type: "map", entries };
}

/** Asks our own reader what it would make of the value, instead of knowing its rules a second time. */
export function holdingOf(value: MetadataValue): Holding {
  if (value.type === "bytes") return "none";
  if (value.type === "string") return isText(value) ? "native" : "none";
  const bytes = encodeUtf8(renderMetadata([{ key: "", value }]));
  try {
    const place = { source: ORIGIN_KEY, offset: 0, maxValues: APR_LIMITS.metadataValues.default };
    const [entry] = decodeMetadata(bytes, place).entries;
    if (entry === undefined) return "none";
    const wanted = fingerprint(value);
    if (fingerprint(entry.value) === wanted) return "native";
    return fingerprint(retypeLike(entry.value, value)) === wanted ? "untyped" : "none";
  } catch (error) {
    if (isTareError(error)) return "none"; // NaN, half a surrogate pair, too deep: no JSON, or none that is read
    throw error;
  }
}

/** A write with everything decided but compressed sizes and checksums. */
export interface SpecPlan extends WritePlan {
  readonly image: SpecImage;
}

/** What is to be written. */
export interface SpecImage {
  readonly compress: "lz4" | "none";
  readonly align: 32 | 64;
  /** One file, or the shards. */
  readonly files: readonly FileImage[];
  /** Present for a set: the file that names the shards. */
  readonly manifest: PlannedLength | undefined;
}

/** One APR file to be. */
export interface FileImage {
  readonly planned: PlannedLength;
  readonly metadata: Bytes;
  /** In the order of the index, which is that of the data. */
  readonly rows: readonly StoredTensor[];
  /** Header bits that do not depend on compression. */
  readonly flags: number;
  readonly tensorFlags: ReadonlyMap<string, number>;
}

/** A file of the plan. Until it is written, its length is the most it can have: compression only shortens it. */
export class PlannedLength {
  readonly name: string;
  byteLength: number;

  constructor(name: string, byteLength: number) {
    this.name = name;
    this.byteLength = byteLength;
  }
}

/** Plans one file, or shards and a manifest where the data exceeds `maxShardBytes`. Pure. */
export function planSpec(content: ModelContent, options: WriteOptions): SpecPlan {
  const { own, keep } = takeOwnFacts(content.chain);
  const facts = parseFacts(own);
  const { stored, carried, losses } = planTensors(content.tensors);
  const sorted = [...stored].sort(compareNames);
  const isSet = wantsSet(sorted, options);
  const rows = isSet ? sorted : restoreOrder(sorted, facts.order);
  // A single file consumes its own facts; a set keeps them for the file that it will be merged into.
  const chain = isSet && Object.keys(own).length > 0 ? [{ format: "apr", facts: own }, ...keep] : keep;
  const order = keep.length === 0 ? undefined : orderFor(namesOf(stored), namesOf(rows));
  const reserved = isSet ? [SHARD_KEY] : [];
  const members = planMetadata({ metadata: content.metadata, chain, tensors: carried, order, reserved });
  const shared = {
    compress: options.compress ?? facts.compress ?? "none",
    align: options.align === undefined ? (facts.align ?? 64) : checkAlign(options.align),
  } as const;
  const image = isSet
    ? planSet(rows, members, facts, { ...shared, options })
    : { ...shared, files: [planFile(rows, members, facts, { ...shared, options })], manifest: undefined };
  const files = [
    ...image.files.map(({ planned }) => planned),
    ...(image.manifest === undefined ? [] : [image.manifest]),
  ];
  return { files, primary: options.name, losses, notes: planNotes(carried.length, losses.length, image), image };
}

interface FileContext {
  readonly align: 32 | 64;
  readonly compress: "lz4" | "none";
  readonly options: WriteOptions;
}

function wantsSet(stored: readonly StoredTensor[], { maxShardBytes }: WriteOptions): boolean {
  const total = stored.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  return total > (maxShardBytes ?? Number.POSITIVE_INFINITY);
}

function checkAlign(align: number): 32 | 64 {
  if (align === 32 || align === 64) return align;
  const message = `Cannot align APR tensors to ${align} bytes: must be 64 or 32`;
  throw new UsageError("usage/apr.align", message, { source: "plan", path: "align" });
}

function planFile(
  rows: readonly StoredTensor[],
  members: readonly MetadataEntry[],
  facts: SpecFacts,
  { align, options }: FileContext,
): FileImage {
  return buildImage({
    name: options.name,
    metadata: encodeUtf8(metadataText(members, facts)),
    rows,
    align,
    flags: facts.flags,
    tensorFlags: facts.tensorFlags,
  });
}

/** Shards filled in the order of the names; all metadata stands in the first one, the others repeat what is required. */
function planSet(
  rows: readonly StoredTensor[],
  members: readonly MetadataEntry[],
  facts: SpecFacts,
  { align, compress, options }: FileContext,
): SpecImage {
  const groups = groupShards(rows, options.maxShardBytes ?? Number.POSITIVE_INFINITY);
  const base = options.name.replace(/\.apr$/i, "");
  const sharded = Number(FILE_FLAGS.encode(["SHARDED"]));
  const required = members.filter(({ key }) => REQUIRED.has(key));
  const files = groups.map((group, index) => {
    const entries = [...(index === 0 ? members : required), shardEntry(index, groups.length)];
    return buildImage({
      name: shardName(base, index + 1, groups.length),
      metadata: encodeUtf8(renderMetadata(entries)),
      rows: group,
      align,
      flags: facts.flags | sharded,
      tensorFlags: facts.tensorFlags,
    });
  });
  return { compress, align, files, manifest: new PlannedLength(options.name, manifestBound(files, rows)) };
}

const REQUIRED: ReadonlySet<string> = new Set(["apr_version", "model_type", "architecture"]);

/** "model-00001-of-00004.apr", as the specification names shards. */
function shardName(base: string, number: number, count: number): string {
  const digits = (value: number): string => String(value).padStart(5, "0");
  return `${base}-${digits(number)}-of-${digits(count)}.apr`;
}

function shardEntry(index: number, count: number): MetadataEntry {
  const integer = (value: number): MetadataValue => ({ type: "i64", value });
  const entries = [
    { key: "index", value: integer(index) },
    { key: "count", value: integer(count) },
  ];
  return { key: SHARD_KEY, value: { type: "map", entries } };
}

/** A tensor above the limit has a shard of its own. */
function groupShards(rows: readonly StoredTensor[], maxShardBytes: number): StoredTensor[][] {
  const shards: StoredTensor[][] = [[]];
  let byteLength = 0;
  for (const row of rows) {
    const current = shards.at(-1) as StoredTensor[];
    if (current.length > 0 && byteLength + row.byteLength > maxShardBytes) {
      shards.push([row]);
      byteLength = row.byteLength;
    } else {
      current.push(row);
      byteLength += row.byteLength;
    }
  }
  return shards;
}

interface ImageParts extends Omit<FileImage, "planned"> {
  readonly name: string;
  readonly align: 32 | 64;
}

function buildImage({ name, metadata, rows, align, flags, tensorFlags }: ImageParts): FileImage {
  const { dataOffset } = layOutFront(metadata.byteLength, rows, name);
  let end = dataOffset;
  for (const { byteLength } of rows) if (byteLength > 0) end = alignUp(end, align) + byteLength;
  const quantized = rows.some(({ dtype }) => (dtypeId(dtype) ?? 0) >= FIRST_QUANTIZED_ID);
  const derived = FILE_FLAGS.encode([align === 64 ? "ALIGNED_64" : "ALIGNED_32", ...(quantized ? QUANTIZED : [])]);
  const planned = new PlannedLength(name, end + fileFooter.byteLength);
  return { planned, metadata, rows, flags: (flags | Number(derived)) >>> 0, tensorFlags };
}

const QUANTIZED = ["QUANTIZED"] as const;

/** The text of the file it was, where it still says the same; else our own rendering. */
function metadataText(members: readonly MetadataEntry[], { metadata: text }: SpecFacts): string {
  const rendered = renderMetadata(members);
  if (text === undefined || text === rendered) return rendered;
  try {
    const place = { source: "metadata", offset: 0, maxValues: APR_LIMITS.metadataValues.default };
    const { entries, trailingBytes } = decodeMetadata(encodeUtf8(text), place);
    const mapOf = (list: readonly MetadataEntry[]): string => fingerprint({ type: "map", entries: list });
    return trailingBytes === 0 && mapOf(entries) === mapOf(members) ? text : rendered;
  } catch (error) {
    if (isTareError(error)) return rendered; // an origin that somebody damaged
    throw error;
  }
}

function namesOf(rows: readonly StoredTensor[]): string[] {
  return rows.map(({ name }) => name);
}

/** Sizes take at most 16 digits, checksums always 8. */
function manifestBound(files: readonly FileImage[], rows: readonly StoredTensor[]): number {
  const escaped = (text: string): number => encodeUtf8(JSON.stringify(text)).byteLength;
  const shards = files.reduce((sum, { planned }) => sum + escaped(planned.name) + 80, 0);
  return 256 + shards + rows.reduce((sum, { name }) => sum + escaped(name) + 16, 0);
}

function planNotes(carried: number, lost: number, image: SpecImage): string[] {
  const notes: string[] = [];
  const kept = carried - lost;
  if (kept > 0)
    notes.push(
      `${kept} tensors of types or shapes that APR lacks are stored in others; tare.origin says what they are`,
    );
  if (image.manifest !== undefined) notes.push(`${image.files.length} shards and a manifest`);
  return notes;
}
