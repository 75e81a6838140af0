import type { Bytes } from "../../base/bytes.ts";
import { MsgpackWriter } from "../../primitives/encoding/msgpack-writer.ts";
import { type CarriedKeys, writePairs } from "./chunks/further-keys.ts";
import { VERSION } from "./layout.ts";

/** What a chunk is for, as the manifest names it. */
export type ChunkRole = "control_integrity" | "json" | "manifest" | "tensors" | "page_hashes" | "weights";

export interface ManifestChunk {
  readonly role: ChunkRole;
  readonly fourcc: string;
  /** For weights and their page hashes. */
  readonly shardId?: number | undefined;
}

export interface ManifestShard {
  readonly shardId: number;
  /** Place of the WTSH chunk in the TOC. */
  readonly tocIndex: number;
  readonly byteLength: number;
  readonly tensorCount: number;
}

export interface Manifest {
  readonly name: string;
  readonly architecture: string;
  /** In TOC order. */
  readonly chunks: readonly ManifestChunk[];
  readonly shards: readonly ManifestShard[];
  /** Keys that the specification does not name: of the manifest, and of its `model`. */
  readonly further?: Pick<CarriedKeys, "manifest" | "model"> | undefined;
}

/** The MMSG payload before compression, keys in the reference writer's order (spec, "MMSG Schema"). */
export function encodeManifest(manifest: Manifest): Bytes {
  const writer = new MsgpackWriter();
  const { further } = manifest;
  writer.map(4 + (further?.manifest?.count ?? 0));
  writer.string("format");
  writer.map(2);
  writeText(writer, "name", "AERO");
  writer.string("version");
  writer.array(2);
  writer.uint(VERSION.major);
  writer.uint(VERSION.minor);
  writer.string("model");
  writer.map(2 + (further?.model?.count ?? 0));
  writeText(writer, "name", manifest.name);
  writeText(writer, "architecture", manifest.architecture);
  writePairs(writer, further?.model);
  writer.string("chunks");
  writer.array(manifest.chunks.length);
  for (const [tocIndex, chunk] of manifest.chunks.entries()) writeChunk(writer, chunk, tocIndex);
  writer.string("shards");
  writer.array(manifest.shards.length);
  for (const shard of manifest.shards) writeShard(writer, shard);
  writePairs(writer, further?.manifest);
  return writer.take();
}

function writeChunk(writer: MsgpackWriter, { role, fourcc, shardId }: ManifestChunk, tocIndex: number): void {
  writer.map(shardId === undefined ? 3 : 4);
  writeText(writer, "role", role);
  writeText(writer, "fourcc", fourcc);
  writeNumber(writer, "toc_index", tocIndex);
  if (shardId !== undefined) writeNumber(writer, "shard_id", shardId);
}

function writeShard(writer: MsgpackWriter, shard: ManifestShard): void {
  writer.map(5);
  writeNumber(writer, "shard_id", shard.shardId);
  writeNumber(writer, "toc_index", shard.tocIndex);
  writeNumber(writer, "size_bytes", shard.byteLength);
  writeNumber(writer, "tensor_count", shard.tensorCount);
  writer.string("mmap_critical");
  writer.bool(true);
}

function writeText(writer: MsgpackWriter, key: string, value: string): void {
  writer.string(key);
  writer.string(value);
}

function writeNumber(writer: MsgpackWriter, key: string, value: number): void {
  writer.string(key);
  writer.uint(value);
}
