import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { UsageError } from "../../../base/errors.ts";
import { alignUp } from "../../../base/integers.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { ModelContent, WriteOptions, WritePlan } from "../../../model/format.ts";
import type { MetadataEntry, MetadataValue } from "../../../model/metadata.ts";
import { renderMetadata } from "../../../model/metadata-json.ts";
import { orderFor, restoreOrder, splitChain } from "../../../model/origin/origin.ts";
import { metadataText, planMetadata } from "../metadata.ts";
import { layOutFront } from "./header.ts";
import { dtypeId, FILE_FLAGS, FIRST_QUANTIZED_ID, fileFooter } from "./layout.ts";
import { SHARD_KEY } from "./manifest.ts";
import { parseFacts, type SpecFacts, shadowedIn } from "./origin.ts";
import { compareNames, planTensors, type StoredTensor } from "./tensors.ts";

/** A write in which everything is decided except compressed sizes and checksums. */
export interface SpecPlan extends WritePlan {
  readonly image: SpecImage;
}

/** What will be written. */
export interface SpecImage {
  readonly compress: "lz4" | "none";
  readonly align: 32 | 64;
  /** One file, or the shards. */
  readonly files: readonly FileImage[];
  /** Present for a set: the file that names the shards. */
  readonly manifest: PlannedLength | undefined;
}

/** One APR file that will be written. */
export interface FileImage {
  readonly planned: PlannedLength;
  readonly metadata: Bytes;
  /** In the order of the index, which is also the order of the data. */
  readonly rows: readonly StoredTensor[];
  /** Header bits that do not depend on compression. */
  readonly flags: number;
  readonly versionMinor: number;
  readonly reserved: number;
  readonly tensorFlags: ReadonlyMap<string, number>;
}

/** A file of the plan. Until it is written, its length is the longest possible one: compression only shortens it. */
export class PlannedLength {
  readonly name: string;
  byteLength: number;

  constructor(name: string, byteLength: number) {
    this.name = name;
    this.byteLength = byteLength;
  }
}

/** Plans one file, or shards and a manifest if the data exceeds `maxShardBytes`. Pure. */
export function planSpec(content: ModelContent, options: WriteOptions): SpecPlan {
  const { link, own = {}, keep } = splitChain(content.chain, "apr", "file");
  const facts = parseFacts(own);
  const { stored, carried, losses } = planTensors(content.tensors);
  const sorted = [...stored].sort(compareNames);
  const isSet = wantsSet(sorted, options);
  const rows = isSet ? sorted : restoreOrder(sorted, facts.order);
  // A single file consumes its own facts. A set keeps them for the file that it will be merged into.
  const chain = isSet && link !== undefined && Object.keys(own).length > 0 ? [link, ...keep] : keep;
  const order = keep.length === 0 ? undefined : orderFor(namesOf(stored), namesOf(rows));
  const reserved = isSet ? [SHARD_KEY] : [];
  const { folder } = options;
  const members = planMetadata({ metadata: content.metadata, chain, tensors: carried, order, reserved, folder });
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
  const notes = planNotes(carried.length, losses.length, image);
  const unkept = isSet || isTextOf(image, facts) ? [] : shadowedIn(facts.metadata);
  return { files, primary: options.name, losses: [...losses, ...unkept], notes, image };
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
    metadata: encodeUtf8(metadataText(members, facts.metadata)),
    rows,
    align,
    ...carriedFields(facts),
  });
}

/** Fills shards in the order of names. The first one has all metadata; the others repeat only the required keys. */
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
      ...carriedFields(facts),
      flags: facts.flags | sharded,
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

/** A tensor above the limit gets its own shard. */
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

function carriedFields({ flags, versionMinor, reserved, tensorFlags }: SpecFacts): CarriedFields {
  return { flags, versionMinor, reserved, tensorFlags };
}

type CarriedFields = Pick<FileImage, "flags" | "versionMinor" | "reserved" | "tensorFlags">;

interface ImageParts extends Omit<FileImage, "planned"> {
  readonly name: string;
  readonly align: 32 | 64;
}

function buildImage({ name, metadata, rows, align, flags, ...carried }: ImageParts): FileImage {
  const { dataOffset } = layOutFront(metadata.byteLength, rows, name);
  let end = dataOffset;
  for (const { byteLength } of rows) if (byteLength > 0) end = alignUp(end, align) + byteLength;
  const quantized = rows.some(({ dtype }) => (dtypeId(dtype) ?? 0) >= FIRST_QUANTIZED_ID);
  const derived = FILE_FLAGS.encode([align === 64 ? "ALIGNED_64" : "ALIGNED_32", ...(quantized ? QUANTIZED : [])]);
  const planned = new PlannedLength(name, end + fileFooter.byteLength);
  return { ...carried, planned, metadata, rows, flags: (flags | Number(derived)) >>> 0 };
}

const QUANTIZED = ["QUANTIZED"] as const;

/** False if the metadata is written differently, so that what only its text says is lost. */
function isTextOf({ files }: SpecImage, { metadata: text }: SpecFacts): boolean {
  const [file] = files;
  return text === undefined || (file !== undefined && equalBytes(file.metadata, encodeUtf8(text)));
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
