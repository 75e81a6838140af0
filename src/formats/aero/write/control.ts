import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import type { WriteContext } from "../../../model/format.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { type ChunkRecord, encodeControl, withoutDigests } from "../chunks/control.ts";
import { CONTROL_HASH_BYTES, encodeControlHash, encodePageHashes } from "../chunks/digests.ts";
import { encodeTensorIndex } from "../chunks/tidx.ts";
import { CHUNK_FLAGS, fileHeader, shardName } from "../layout.ts";
import type { AeroImage } from "../plan.ts";
import type { PlannedChunk } from "./layout.ts";
import { ZSTD_LEVEL } from "./metadata.ts";
import type { SeekableSink, WrittenDigests } from "./shards.ts";

/** Up to this length the JSON stays readable in a hex dump; one with a vocabulary is worth compressing. */
const MAX_PLAIN_JSON = 64 << 10;

/** A chunk's content as it goes to the file, and as the TOC describes it. */
interface StoredChunk {
  readonly bytes: Bytes;
  readonly record: ChunkRecord;
}

/** Fills the room before the weights: metadata and page digests, then the tables, then the file header. */
export async function writeControl(
  image: AeroImage,
  digests: WrittenDigests,
  sink: SeekableSink,
  context: WriteContext,
): Promise<void> {
  const { engine } = context;
  const stored: StoredChunk[] = [];
  for (const chunk of image.layout.chunks) stored.push(await storeChunk(image, chunk, digests, engine));
  const records = await sealControl(image, stored, engine);
  const region = encodeControl(
    image.uuid,
    records.map(({ record }) => record),
  );
  for (const { bytes, record } of records) if (bytes.byteLength > 0) await sink.fill(record.offset, bytes);
  await sink.fill(fileHeader.byteLength, region.subarray(fileHeader.byteLength));
  // Until now the file begins with zeros, which no reader takes for AERO.
  await sink.fill(0, region.subarray(0, fileHeader.byteLength));
}

async function storeChunk(
  image: AeroImage,
  chunk: PlannedChunk,
  digests: WrittenDigests,
  engine: Engine,
): Promise<StoredChunk> {
  const shard = chunk.shardId === undefined ? undefined : digests.shards.get(chunk.shardId);
  switch (chunk.role) {
    case "weights": {
      const record = recordOf(chunk, chunk.byteLength, shard?.whole ?? EMPTY_BYTES);
      return { bytes: EMPTY_BYTES, record };
    }
    case "page_hashes": {
      const name = shardName(chunk.shardId ?? 0);
      return storeContent(chunk, encodePageHashes(name, image.pageBytes ?? 0, shard?.pages ?? []), engine);
    }
    case "carried":
      return { bytes: EMPTY_BYTES, record: carriedRecord(image, chunk) };
    case "control_integrity":
      // Its content is known last. Its length is known now, and its own digest depends on nothing else.
      return storeContent(chunk, new Uint8Array(CONTROL_HASH_BYTES), engine);
    case "json":
      return image.json.byteLength > MAX_PLAIN_JSON
        ? compressContent(chunk, image.json, engine)
        : storeContent(chunk, image.json, engine);
    case "manifest":
      return compressContent(chunk, image.manifest, engine);
    case "tensors": {
      const index = encodeTensorIndex(image.rows, digests.tensors, image.furtherRoot);
      // Without shards this is the end of the file. Uncompressed it fills its room, and nothing follows it.
      return image.shards.length === 0 ? storeContent(chunk, index, engine) : compressContent(chunk, index, engine);
    }
  }
}

async function storeContent(chunk: PlannedChunk, content: Bytes, engine: Engine): Promise<StoredChunk> {
  checkLength(chunk, content);
  return { bytes: content, record: recordOf(chunk, content.byteLength, await engine.digest("blake3", content)) };
}

/** Compresses only if that is shorter: the room is the length of the content, so more would not fit. */
async function compressContent(chunk: PlannedChunk, content: Bytes, engine: Engine): Promise<StoredChunk> {
  checkLength(chunk, content);
  const bytes = await engine.zstdCompress(content, { level: ZSTD_LEVEL });
  if (bytes.byteLength >= content.byteLength) return storeContent(chunk, content, engine);
  const record = recordOf(chunk, bytes.byteLength, await engine.digest("blake3", content));
  return { bytes, record: { ...record, flags: record.flags | CHUNK_FLAGS.COMPRESSED_ZSTD } };
}

function recordOf(
  { fourcc, name, flags, offset, byteLength }: PlannedChunk,
  length: number,
  digest: Bytes,
): ChunkRecord {
  return { fourcc, name, flags, offset, length, ulen: byteLength, digest };
}

/** Its digest was compared with the copied bytes. */
function carriedRecord({ carried }: AeroImage, planned: PlannedChunk): ChunkRecord {
  const chunk = planned.carried?.chunk;
  if (carried === undefined || chunk === undefined) throw new Error(`nothing is carried for ${planned.name}`);
  return { ...recordOf(planned, chunk.byteLength, carried.from.toc.hashOf(chunk)), ulen: chunk.ulen };
}

function checkLength({ name, byteLength }: PlannedChunk, content: Bytes): void {
  if (content.byteLength === byteLength) return;
  throw new Error(`planned ${byteLength} bytes for ${name}, made ${content.byteLength}`);
}

/** Puts the digest over header, TOC and names into the IHSH chunk, if there is one (AIP-0001). */
async function sealControl(
  image: AeroImage,
  stored: readonly StoredChunk[],
  engine: Engine,
): Promise<readonly StoredChunk[]> {
  const at = image.layout.chunks.findIndex(({ role }) => role === "control_integrity");
  const chunk = image.layout.chunks[at];
  if (chunk === undefined) return stored;
  const region = encodeControl(
    image.uuid,
    stored.map(({ record }) => record),
  );
  const digest = await engine.digest("blake3", withoutDigests(region, stored.length));
  const sealed = await storeContent(chunk, encodeControlHash(region.byteLength, digest), engine);
  return stored.map((other, i) => (i === at ? sealed : other));
}
