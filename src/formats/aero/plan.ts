import type { Bytes } from "../../base/bytes.ts";
import { checkLimit } from "../../base/limits.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { ModelContent, WriteOptions, WritePlan } from "../../model/format.ts";
import { splitChain } from "../../model/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { type CarriedKeys, parseFurther, type StoredPairs } from "./chunks/further-keys.ts";
import { AERO_LIMITS } from "./limits.ts";
import { restoreNames } from "./origin-facts.ts";
import { type ChunkDraft, draftChunks, type FileLayout, layOutFile } from "./plan-layout.ts";
import { planMetadata } from "./plan-metadata.ts";
import { type AeroOptions, resolveOptions } from "./plan-options.ts";
import { planTensors, type StoredTensor } from "./plan-tensors.ts";
import { encodeManifest, type Manifest } from "./render-mmsg.ts";
import { measureTensorIndex, type TensorRow } from "./render-tidx.ts";
import { planShards, type Shard } from "./shard-plan.ts";

/** A write with every place and length decided; digests and compression are left to `writeAero`. */
export interface AeroPlan extends WritePlan {
  readonly image: AeroImage;
}

/** The one file to be. */
export interface AeroImage {
  readonly layout: FileLayout;
  readonly uuid: Bytes;
  readonly pageBytes: number | undefined;
  readonly tensorHashes: "tensors" | undefined;
  /** The tensor index, in the order of the content; shards follow the same order. */
  readonly rows: readonly TensorRow[];
  /** Beside the rows. */
  readonly tensors: readonly Tensor[];
  readonly shards: readonly Shard[];
  /** The number of each shard; a part of a set has numbers of its own, a file by itself counts from 0. */
  readonly shardIds: readonly number[];
  readonly json: Bytes;
  readonly manifest: Bytes;
  /** Further keys of the tensor index, beside its entries. */
  readonly furtherRoot?: StoredPairs | undefined;
}

/** A file to be, with types, places and metadata decided. */
export interface ImageContent extends Pick<AeroImage, "rows" | "tensors" | "shards" | "shardIds" | "json"> {
  /** For the manifest. */
  readonly model: { readonly name: string; readonly architecture: string };
  /** Bytes of the tensor index with the digests it is going to have. */
  readonly indexBytes: number;
  /** Keys that the specification does not name. */
  readonly further?: CarriedKeys | undefined;
}

/** Plans one file with as many shards as `maxShardBytes` asks for. Pure, but for a random uuid where none is given. */
export function planAero(content: ModelContent, options: WriteOptions): AeroPlan {
  const { own, keep } = splitChain(content.chain, "aero");
  const chosen = resolveOptions(options, own ?? {});
  // Older links of our own have nothing left to say once this file is written.
  const chain = keep.filter(({ format }) => format !== "aero");
  const { stored, carried, descriptors, losses } = planTensors(content.tensors, own);
  const metadata = planMetadata({ metadata: content.metadata, chain, tensors: carried, descriptors });
  const further = parseFurther(own?.["further"]);
  const { rows, shards } = placeTensors(stored, chosen, further);
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
    },
    chosen,
    options.name,
  );
  return {
    files: [{ name: options.name, byteLength: image.layout.fileBytes }],
    primary: options.name,
    losses,
    notes: planNotes(shards.length, carried.length),
    image,
  };
}

/** Gives everything its place in a file; `name` is only for messages. */
export function planImage(content: ImageContent, chosen: AeroOptions, name: string): AeroImage {
  const { rows, tensors, shards, shardIds, json, model, indexBytes, further } = content;
  const drafts = draftChunks(shardIds, chosen);
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
  return { layout, uuid, pageBytes, tensorHashes, rows, tensors, shards, shardIds, json, manifest, furtherRoot };
}

function placeTensors(
  stored: readonly StoredTensor[],
  { align, maxShardBytes, shardCounts }: AeroOptions,
  further: CarriedKeys,
): { readonly rows: readonly TensorRow[]; readonly shards: readonly Shard[] } {
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
  { name, architecture, further }: Pick<Manifest, "name" | "architecture" | "further">,
): Manifest {
  const firstShard = drafts.length - shards.length;
  return {
    name,
    architecture,
    further,
    chunks: drafts,
    shards: shards.map((shard, i) => ({ ...shard, shardId: shardIds[i] ?? i, tocIndex: firstShard + i })),
  };
}

/** Refuses to write what readers that keep the specification's caps would refuse. */
function checkMetadata(byteLength: number, name: string): void {
  const limit = AERO_LIMITS.metadataBytes.default;
  checkLimit(byteLength, limit, "AERO metadata of so many bytes", "limit/aero.planned-metadata", { source: name });
}

function planNotes(shardCount: number, carriedCount: number): string[] {
  const notes: string[] = [];
  if (carriedCount > 0) {
    notes.push(`${carriedCount} tensors of types that AERO lacks are stored as packed; tare.origin says what they are`);
  }
  if (shardCount > 1) notes.push(`${shardCount} shards in one file`);
  return notes;
}
