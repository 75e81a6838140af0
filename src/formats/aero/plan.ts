import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { isPowerOfTwo } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import { decodeHex, encodeUtf8 } from "../../base/text.ts";
import type { ModelContent, WriteHashes, WriteOptions, WritePlan } from "../../model/format.ts";
import { type OriginFacts, splitChain } from "../../model/origin/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { type CarriedKeys, parseFurther, type StoredPairs } from "./chunks/further-keys.ts";
import { encodeManifest, type PlannedManifest } from "./chunks/metadata.ts";
import { measureTensorIndex, type TensorRow } from "./chunks/tidx.ts";
import { CarriedChunks } from "./chunks/unknown.ts";
import { type ChunkNames, UUID_BYTES } from "./layout.ts";
import { AERO_LIMITS } from "./limits.ts";
import { ALIGNMENTS, DEFAULT_SHARD_BYTES, parseChunkNames, restoreNames } from "./origin.ts";
import {
  type ChunkDraft,
  draftChunks,
  type FileLayout,
  layOutFile,
  type PlannedShard,
  planShards,
} from "./write/layout.ts";
import { planMetadata } from "./write/metadata.ts";
import { planTensors, type StoredTensor } from "./write/tensors.ts";

/** A write with every place and length decided; `writeAero` computes digests and compresses. */
export interface AeroPlan extends WritePlan {
  readonly image: AeroImage;
}

/** The one file that will be written. */
export interface AeroImage {
  readonly layout: FileLayout;
  readonly uuid: Bytes;
  readonly pageBytes: number | undefined;
  readonly tensorHashes: "tensors" | undefined;
  /** The tensor index, in the order of the content; shards follow the same order. */
  readonly rows: readonly TensorRow[];
  /** One for each row. */
  readonly tensors: readonly Tensor[];
  readonly shards: readonly PlannedShard[];
  /** The number of each shard. A part of a set has its own numbers; a single file counts from 0. */
  readonly shardIds: readonly number[];
  readonly json: Bytes;
  readonly manifest: Bytes;
  /** Further keys of the tensor index, besides its entries. */
  readonly furtherRoot?: StoredPairs | undefined;
  /** Chunks of another file that are written unchanged. */
  readonly carried?: CarriedChunks | undefined;
}

/** A file to write, with types, places and metadata decided. */
interface ImageContent extends Pick<AeroImage, "rows" | "tensors" | "shards" | "shardIds" | "json" | "carried"> {
  /** For the manifest. */
  readonly model: { readonly name: string; readonly architecture: string };
  /** Bytes of the tensor index with the digests it will have. */
  readonly indexBytes: number;
  /** Keys that the specification does not name. */
  readonly further?: CarriedKeys | undefined;
}

/** Plans one file with shards of at most `maxShardBytes`. Pure, except for a random uuid if none is given. */
export function planAero(content: ModelContent, options: WriteOptions): AeroPlan {
  const { own, keep } = splitChain(content.chain, "aero");
  const chosen = resolveOptions(options, own ?? {});
  // Older AERO links are not needed once this file is written.
  const chain = keep.filter(({ format }) => format !== "aero");
  const { stored, carried: packed, descriptors, losses } = planTensors(content.tensors, own);
  const { folder } = options;
  const metadata = planMetadata({ metadata: content.metadata, chain, tensors: packed, descriptors, folder });
  const further = parseFurther(own?.["further"]);
  const { rows, shards } = placeTensors(stored, chosen, further);
  const carried = carriedChunks(content, rows, shards);
  const image = planImage(
    {
      rows,
      tensors: stored.map(({ tensor }) => tensor),
      shards,
      shardIds: shards.map((_, id) => id),
      json: encodeUtf8(metadata.text),
      model: restoreNames(metadata, own?.["manifest"]),
      indexBytes: measureTensorIndex(rows, chosen.tensorHashes === undefined ? "plain" : "hashed", further.root),
      further,
      carried,
    },
    chosen,
    options.name,
  );
  return {
    files: [{ name: options.name, byteLength: image.layout.fileBytes }],
    primary: options.name,
    losses,
    beside: carried,
    notes: planNotes(shards.length, packed.length, carried?.chunks.length ?? 0),
    image,
  };
}

/** Places everything in a file; `name` is only for messages. */
export function planImage(content: ImageContent, chosen: AeroOptions, name: string): AeroImage {
  const { rows, tensors, shards, shardIds, json, model, indexBytes, further, carried } = content;
  const drafts = draftChunks(shardIds, chosen, carried?.chunks);
  const manifest = encodeManifest(manifestOf(drafts, content, { ...model, further }));
  for (const byteLength of [json.byteLength, manifest.byteLength, indexBytes]) checkMetadata(byteLength, name);
  const layout = layOutFile(drafts, {
    json: json.byteLength,
    manifest: manifest.byteLength,
    tensors: indexBytes,
    shards: new Map(shardIds.map((id, i) => [id, shards[i]?.byteLength ?? 0])),
    pageBytes: chosen.pageBytes,
    align: chosen.align,
  });
  const { uuid, pageBytes, tensorHashes } = chosen;
  const furtherRoot = further?.root;
  return {
    ...{ layout, uuid, pageBytes, tensorHashes, rows, tensors, shards, shardIds, json, manifest, furtherRoot },
    carried,
  };
}

/** The extra chunks of the content's file, if they are still true in this file. */
function carriedChunks(
  { beside }: ModelContent,
  tensors: readonly TensorRow[],
  shards: readonly PlannedShard[],
): CarriedChunks | undefined {
  if (!(beside instanceof CarriedChunks)) return undefined;
  const lengths = new Map(shards.map(({ byteLength }, id) => [id, byteLength]));
  return beside.fits({ tensors, shards: lengths }) ? beside : undefined;
}

function placeTensors(
  stored: readonly StoredTensor[],
  { align, maxShardBytes, shardCounts }: AeroOptions,
  further: CarriedKeys,
): { readonly rows: readonly TensorRow[]; readonly shards: readonly PlannedShard[] } {
  const lengths = stored.map(({ tensor }) => tensor.byteLength);
  const counted = shardCounts?.reduce((sum, count) => sum + count, 0);
  const counts = counted === stored.length ? shardCounts : undefined;
  const { placements, shards } = planShards(lengths, { align, maxShardBytes, counts });
  const rows = stored.map(({ tensor, dtype, quantId, quantParams }, i): TensorRow => {
    const { shardId = 0, dataOff = 0 } = placements[i] ?? {};
    const { name, shape, byteLength } = tensor;
    const keys = further.entries.get(name);
    return { name, dtype, shape, shardId, dataOff, dataLen: byteLength, quantId, quantParams, further: keys };
  });
  return { rows, shards };
}

function manifestOf(
  drafts: readonly ChunkDraft[],
  { shards, shardIds }: Pick<AeroImage, "shards" | "shardIds">,
  { name, architecture, further }: Pick<PlannedManifest, "name" | "architecture" | "further">,
): PlannedManifest {
  const firstShard = drafts.findIndex(({ role: drafted }) => drafted === "weights");
  return {
    name,
    architecture,
    further,
    chunks: drafts.map((draft) => (draft.role === "carried" ? { ...draft, role: draft.carried?.row?.role } : draft)),
    shards: shards.map((shard, i) => ({ ...shard, shardId: shardIds[i] ?? i, tocIndex: firstShard + i })),
  };
}

/** Refuses to write metadata that readers with the specification's caps would refuse. */
function checkMetadata(byteLength: number, name: string): void {
  const limit = AERO_LIMITS.metadataBytes.default;
  checkLimit(byteLength, limit, "AERO metadata of this many bytes", "limit/aero.planned-metadata", { source: name });
}

function planNotes(shardCount: number, packedCount: number, chunkCount: number): string[] {
  const notes: string[] = [];
  if (packedCount > 0) {
    notes.push(`${packedCount} tensors of types that AERO lacks are stored as packed; tare.origin says what they are`);
  }
  if (shardCount > 1) notes.push(`${shardCount} shards in one file`);
  if (chunkCount > 0) notes.push(`chunks of types that the specification does not name, as they are: ${chunkCount}`);
  return notes;
}

/** The options of a write: the caller's, else those of the original file, else the defaults. */
export interface AeroOptions {
  readonly uuid: Bytes;
  /** Tensors begin on file offsets that are multiples of this. */
  readonly align: number;
  readonly maxShardBytes: number;
  /** Tensors per shard of the original file, unless the caller wants other shards. */
  readonly shardCounts: readonly number[] | undefined;
  readonly pageBytes: number | undefined;
  readonly tensorHashes: "tensors" | undefined;
  readonly controlHash: "control" | undefined;
  /** Unusual names of chunks in the original file. */
  readonly names: ChunkNames;
}

/** A cache line, and what vector instructions prefer; costs at most 63 bytes per tensor. */
const DEFAULT_ALIGN = ALIGNMENTS[0];
/** Several of the largest pages in use (2 MiB); a larger gap is a mistake. */
const MAX_ALIGN = 1 << 24;
/** A page is held in memory until it is checked: this is the most that our own reader accepts. */
const MAX_PAGE_BYTES = AERO_LIMITS.verifyBytes.default;

/** Refuses options that make no sense with a UsageError. Only a random `uuid` differs between calls. */
export function resolveOptions(options: WriteOptions, facts: OriginFacts): AeroOptions {
  checkWishes(options);
  const { uuid, align, pageBytes, shardCounts, hashes } = parseFacts(facts);
  const wanted = options.hashes ?? hashes;
  return {
    uuid: options.uuid ?? uuid ?? randomUuid(),
    align: options.align ?? align ?? DEFAULT_ALIGN,
    maxShardBytes: options.maxShardBytes ?? DEFAULT_SHARD_BYTES,
    shardCounts: options.maxShardBytes === undefined ? shardCounts : undefined,
    pageBytes: options.hashes === undefined ? pageBytes : options.hashes.pageBytes,
    tensorHashes: wanted.tensors,
    controlHash: wanted.control,
    names: parseChunkNames(facts["names"]),
  };
}

function checkWishes({ align, maxShardBytes, hashes, uuid }: WriteOptions): void {
  if (align !== undefined && !isAlignment(align)) {
    const message = `Cannot align AERO tensors to ${align} bytes: must be a power of two from 1 to ${MAX_ALIGN}`;
    throw new UsageError("usage/aero.align", message, { source: "align" });
  }
  if (maxShardBytes !== undefined && !isSize(maxShardBytes)) {
    const message = `Cannot fill shards up to ${maxShardBytes} bytes: must be a whole number above 0`;
    throw new UsageError("usage/aero.shard-size", message, { source: "shard size" });
  }
  const pageBytes = hashes?.pageBytes;
  if (pageBytes !== undefined && !isPageSize(pageBytes)) {
    const message = `Cannot hash pages of ${pageBytes} bytes: must be a whole number from 1 to ${MAX_PAGE_BYTES}`;
    throw new UsageError("usage/aero.page-size", message, { source: "page size" });
  }
  if (uuid !== undefined && uuid.byteLength !== UUID_BYTES) {
    const message = `Cannot use a uuid of ${uuid.byteLength} bytes: must be ${UUID_BYTES}`;
    throw new UsageError("usage/aero.uuid", message, { source: "uuid" });
  }
}

function isAlignment(value: unknown): value is number {
  return isSize(value) && isPowerOfTwo(value) && value <= MAX_ALIGN;
}

function isPageSize(value: unknown): value is number {
  return isSize(value) && value <= MAX_PAGE_BYTES;
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

/** Version 4 in RFC 9562's byte order. */
function randomUuid(): Bytes {
  const uuid = crypto.getRandomValues(new Uint8Array(UUID_BYTES));
  uuid[6] = ((uuid[6] as number) & 0x0f) | 0x40;
  uuid[8] = ((uuid[8] as number) & 0x3f) | 0x80;
  return uuid;
}

interface Facts {
  readonly uuid: Bytes | undefined;
  readonly align: number | undefined;
  readonly pageBytes: number | undefined;
  readonly shardCounts: readonly number[] | undefined;
  readonly hashes: WriteHashes;
}

/** Facts come from a file: ignores everything that is not as `describeAero` writes it. */
function parseFacts(facts: OriginFacts): Facts {
  const { uuid, align, pageBytes, shards, tensorHashes, controlHash } = facts;
  const bytes = typeof uuid === "string" ? decodeHex(uuid) : undefined;
  return {
    uuid: bytes?.byteLength === UUID_BYTES ? bytes : undefined,
    align: isAlignment(align) ? align : undefined,
    pageBytes: isSize(pageBytes) ? Math.min(pageBytes, MAX_PAGE_BYTES) : undefined,
    shardCounts: Array.isArray(shards) && shards.every(isSize) ? shards : undefined,
    hashes: {
      tensors: tensorHashes === true ? "tensors" : undefined,
      control: controlHash === true ? "control" : undefined,
    },
  };
}
