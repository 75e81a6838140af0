import type { Bytes } from "../../base/bytes.ts";
import { checkLimit } from "../../base/limits.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { ModelContent, WriteOptions, WritePlan } from "../../model/format.ts";
import { splitChain } from "../../model/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { AERO_LIMITS } from "./limits.ts";
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
  readonly json: Bytes;
  readonly manifest: Bytes;
}

/** Plans one file with as many shards as `maxShardBytes` asks for. Pure, but for a random uuid where none is given. */
export function planAero(content: ModelContent, options: WriteOptions): AeroPlan {
  const { own, keep } = splitChain(content.chain, "aero");
  const chosen = resolveOptions(options, own ?? {});
  // Older links of our own have nothing left to say once this file is written.
  const chain = keep.filter(({ format }) => format !== "aero");
  const { stored, carried, descriptors, losses } = planTensors(content.tensors, own);
  const metadata = planMetadata({ metadata: content.metadata, chain, tensors: carried, descriptors });
  const { rows, shards } = placeTensors(stored, chosen);
  const drafts = draftChunks(shards.length, chosen);
  const json = encodeUtf8(metadata.text);
  const manifest = encodeManifest(manifestOf(drafts, shards, metadata));
  const tensors = measureTensorIndex(rows, chosen.tensorHashes === undefined ? "plain" : "hashed");
  for (const byteLength of [json.byteLength, manifest.byteLength, tensors]) checkMetadata(byteLength, options.name);
  const layout = layOutFile(drafts, {
    json: json.byteLength,
    manifest: manifest.byteLength,
    tensors,
    shards,
    pageBytes: chosen.pageBytes,
    align: chosen.align,
  });
  const { uuid, pageBytes, tensorHashes } = chosen;
  const parts = { rows, tensors: stored.map(({ tensor }) => tensor), shards, json, manifest };
  return {
    files: [{ name: options.name, byteLength: layout.fileBytes }],
    primary: options.name,
    losses,
    notes: planNotes(shards.length, carried.length),
    image: { layout, uuid, pageBytes, tensorHashes, ...parts },
  };
}

function placeTensors(
  stored: readonly StoredTensor[],
  { align, maxShardBytes, shardCounts }: AeroOptions,
): { readonly rows: readonly TensorRow[]; readonly shards: readonly Shard[] } {
  const lengths = stored.map(({ tensor }) => tensor.byteLength);
  const counted = shardCounts?.reduce((sum, count) => sum + count, 0);
  const counts = counted === stored.length ? shardCounts : undefined;
  const { placements, shards } = planShards(lengths, { align, maxShardBytes, counts });
  const rows = stored.map(({ tensor, dtype, quantId, quantParams }, i): TensorRow => {
    const { shardId = 0, dataOff = 0 } = placements[i] ?? {};
    const { name, shape, byteLength } = tensor;
    return { name, dtype, shape, shardId, dataOff, dataLen: byteLength, quantId, quantParams };
  });
  return { rows, shards };
}

function manifestOf(
  drafts: readonly ChunkDraft[],
  shards: readonly Shard[],
  { name, architecture }: { readonly name: string; readonly architecture: string },
): Manifest {
  const firstShard = drafts.length - shards.length;
  return {
    name,
    architecture,
    chunks: drafts,
    shards: shards.map((shard, id) => ({ ...shard, tocIndex: firstShard + id })),
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
