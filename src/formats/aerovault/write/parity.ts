import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import type { Engine } from "../../../primitives/engine.ts";

/** Percentages between which parity can be chosen (dossier 5.2). */
const LEAST_PERCENT = 5;
const MOST_PERCENT = 50;
/** What a vault has that records none. */
export const DEFAULT_PARITY_PERCENT = 20;

/** Lengths of shards (dossier 5.3). */
const LEAST_SHARD_BYTES = 4096;
const MOST_SHARD_BYTES = 1 << 20;
const PAYLOAD_HEADER_BYTES = 32;
const CHECKSUM_BYTES = 16;
/** "AVEC". */
const MAGIC = [0x41, 0x56, 0x45, 0x43];
const VERSION = 2;

/** Data and parity shards of a group. */
export interface ParityGrid {
  readonly dataShards: number;
  readonly parityShards: number;
}

/** The grid of a percentage (dossier 5.2). */
export function parityGrid(percent: number): ParityGrid {
  const clamped = clampParity(percent);
  const parityShards = clamped < 10 ? 1 : 2;
  const dataShards = Math.max(2, Math.floor((100 * parityShards + Math.floor(clamped / 2)) / clamped));
  return { dataShards, parityShards };
}

/** What a manifest records for a percentage. */
export function clampParity(percent: number): number {
  return Math.min(Math.max(percent, LEAST_PERCENT), MOST_PERCENT);
}

/** Bytes to be protected: `read` gives any run of them. */
export interface ProtectedBytes {
  readonly byteLength: number;
  read(offset: number, byteLength: number): Promise<Bytes>;
}

/** The AVEC payload over a stream of bytes (dossier 5.3), with one group in memory; empty for none. */
export async function encodeParity(engine: Engine, grid: ParityGrid, data: ProtectedBytes): Promise<Bytes> {
  const { byteLength } = data;
  if (byteLength === 0) return EMPTY_BYTES;
  const { dataShards, parityShards } = grid;
  const shardBytes = Math.min(Math.max(Math.ceil(byteLength / dataShards), LEAST_SHARD_BYTES), MOST_SHARD_BYTES);
  const shardCount = Math.ceil(byteLength / shardBytes);
  const groupCount = Math.ceil(shardCount / dataShards);
  const sumsAt = PAYLOAD_HEADER_BYTES;
  const paritySumsAt = sumsAt + CHECKSUM_BYTES * shardCount;
  const parityAt = paritySumsAt + CHECKSUM_BYTES * groupCount * parityShards;
  const payload = new Uint8Array(parityAt + groupCount * parityShards * shardBytes);
  writeHeader(payload, grid, { shardBytes, byteLength });
  const code = await engine.reedSolomon(dataShards, parityShards);
  const checksum = async (shard: Bytes, at: number): Promise<void> => {
    payload.set((await engine.digest("blake3", shard)).subarray(0, CHECKSUM_BYTES), at);
  };
  for (let group = 0; group < groupCount; group++) {
    const parity = Array.from({ length: parityShards }, (_, i) => {
      const at = parityAt + (group * parityShards + i) * shardBytes;
      return payload.subarray(at, at + shardBytes);
    });
    for (let i = 0; i < dataShards; i++) {
      const index = group * dataShards + i;
      if (index >= shardCount) break;
      const shard = await readShard(data, index * shardBytes, shardBytes);
      await checksum(shard, sumsAt + CHECKSUM_BYTES * index);
      code.accumulate(i, shard, parity);
    }
    for (const [i, shard] of parity.entries()) {
      await checksum(shard, paritySumsAt + CHECKSUM_BYTES * (group * parityShards + i));
    }
  }
  return payload;
}

/** A shard, filled up with zeros where the bytes end. */
async function readShard(data: ProtectedBytes, offset: number, shardBytes: number): Promise<Bytes> {
  const length = Math.min(shardBytes, data.byteLength - offset);
  const bytes = await data.read(offset, length);
  if (length === shardBytes) return bytes;
  const padded = new Uint8Array(shardBytes);
  padded.set(bytes);
  return padded;
}

function writeHeader(
  payload: Bytes,
  { dataShards, parityShards }: ParityGrid,
  { shardBytes, byteLength }: { readonly shardBytes: number; readonly byteLength: number },
): void {
  const view = new DataView(payload.buffer, payload.byteOffset);
  payload.set(MAGIC);
  view.setUint16(4, VERSION, true);
  view.setUint16(6, dataShards, true);
  view.setUint16(8, parityShards, true);
  view.setUint32(10, shardBytes, true);
  view.setBigUint64(14, BigInt(byteLength), true);
}
