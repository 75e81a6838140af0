import { type Bytes, equalBytes } from "../../base/bytes.ts";
import type { Engine } from "../../primitives/engine.ts";
import { ascii, reserved, struct, u16, u32, u64 } from "../../struct/layout.ts";

/** The head of a parity payload, docs/formats/aerovault.md#parity. */
export const parityHeader = struct("AVEC header", 32, {
  magic: ascii(0, 4),
  version: u16(4),
  dataShards: u16(6),
  parityShards: u16(8),
  shardLength: u32(10),
  totalLength: u64(14),
  reserved: reserved(22, 10),
});

const MAGIC = "AVEC";
const VERSION = 2;
/** First bytes of BLAKE3 over a shard that is filled up with zeros. */
const CHECKSUM_BYTES = 16;

/**
 * Compares bytes with the checksums of the shards that their parity was made of. Gives the offset of the first shard that
 * differs, "none" where all agree, "unknown" where the payload is not one for these bytes.
 */
export async function findDamagedShard(
  engine: Engine,
  bytes: Bytes,
  payload: Bytes,
): Promise<number | "none" | "unknown"> {
  const shardLength = shardLengthOf(payload, bytes.byteLength);
  if (shardLength === undefined) return "unknown";
  for (let offset = 0, sum = parityHeader.byteLength; offset < bytes.byteLength; sum += CHECKSUM_BYTES) {
    const shard = bytes.subarray(offset, offset + shardLength);
    const digest = await engine.digest("blake3", fillUp(shard, shardLength));
    const wanted = payload.subarray(sum, sum + CHECKSUM_BYTES);
    if (!equalBytes(digest.subarray(0, CHECKSUM_BYTES), wanted)) return offset;
    offset += shardLength;
  }
  return "none";
}

/** Undefined where the payload is damaged or was made for a stream of another length. */
function shardLengthOf(payload: Bytes, byteLength: number): number | undefined {
  if (payload.byteLength < parityHeader.byteLength) return undefined;
  const at = { source: "parity" };
  // A length above 2^53 - 1 is no length of these bytes either.
  if (new DataView(payload.buffer, payload.byteOffset).getUint32(18, true) > 0x1f_ffff) return undefined;
  const { magic, version, dataShards, parityShards, shardLength, totalLength } = parityHeader.decode(payload, at);
  const isOurs = magic === MAGIC && version === VERSION && totalLength === byteLength;
  if (!isOurs || dataShards === 0 || parityShards === 0 || shardLength === 0) return undefined;
  const shards = Math.ceil(byteLength / shardLength);
  const parity = Math.ceil(shards / dataShards) * parityShards;
  const wanted = parityHeader.byteLength + CHECKSUM_BYTES * (shards + parity) + parity * shardLength;
  return payload.byteLength === wanted ? shardLength : undefined;
}

function fillUp(shard: Bytes, byteLength: number): Bytes {
  if (shard.byteLength === byteLength) return shard;
  const filled = new Uint8Array(byteLength);
  filled.set(shard);
  return filled;
}
