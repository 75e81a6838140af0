import { writeFile } from "node:fs/promises";
import { blake3 } from "@napi-rs/blake-hash";

/**
 * An AERO file of 100 000 chunks and 1 000 000 tensors, written by the specification only, without tare's writer: a raw
 * TIDX, a raw MMSG and shards of ten tensors of 16 bytes each. All payload bytes are zero, so one digest fits every
 * shard.
 */
const SHARDS = 99_998;
const TENSORS_PER_SHARD = 10;
const EXTRA_TENSORS = 20; // 1 000 000 in all; the last shard has the rest
const TENSOR_BYTES = 16;

export const CHUNK_COUNT = SHARDS + 2;
export const TENSOR_COUNT = SHARDS * TENSORS_PER_SHARD + EXTRA_TENSORS;

export async function makeManyChunks(path: string): Promise<void> {
  const shardBytes = (shard: number): number =>
    TENSOR_BYTES * (TENSORS_PER_SHARD + (shard === SHARDS - 1 ? EXTRA_TENSORS : 0));
  const manifest = Buffer.concat([
    map(2),
    text("format"),
    map(2),
    text("name"),
    text("AERO"),
    text("version"),
    Buffer.from([0x92, 0, 1]),
    text("model"),
    map(2),
    text("name"),
    text("many"),
    text("architecture"),
    text("unknown"),
  ]);
  const index = tensorIndex();
  const names = ["manifest", "tensors", ...Array.from({ length: SHARDS }, (_, i) => `weights.shard${i}`)];
  const table = Buffer.from(`${names.join("\0")}\0`);
  const tableBytes = align(table.length, 8);
  const tocBytes = 16 + 80 * CHUNK_COUNT;
  const tableOffset = align(96 + tocBytes, 8);
  let offset = align(tableOffset + tableBytes, 16);
  const toc = Buffer.alloc(tocBytes);
  toc.writeUInt32LE(CHUNK_COUNT, 0);
  const places: [number, Buffer][] = [];
  let nameOffset = 0;
  const digests = new Map<number, Buffer>();
  for (let i = 0; i < CHUNK_COUNT; i++) {
    const payload = i === 0 ? manifest : i === 1 ? index : undefined;
    const length = payload?.length ?? shardBytes(i - 2);
    const digest = payload === undefined ? zeroDigest(length, digests) : blake3(payload);
    const at = 16 + 80 * i;
    toc.write(i === 0 ? "MMSG" : i === 1 ? "TIDX" : "WTSH", at, "latin1");
    toc.writeUInt32LE(i === 0 ? 0 : i === 1 ? 4 : 2, at + 4);
    toc.writeBigUInt64LE(BigInt(offset), at + 8);
    toc.writeBigUInt64LE(BigInt(length), at + 16);
    toc.writeBigUInt64LE(BigInt(length), at + 24);
    toc.writeUInt32LE(nameOffset, at + 32);
    toc.writeUInt32LE((names[i] as string).length, at + 36);
    digest.copy(toc, at + 48);
    nameOffset += (names[i] as string).length + 1;
    if (payload !== undefined) places.push([offset, payload]);
    offset = align(offset + length, 16);
  }
  const file = Buffer.alloc(offset);
  header(tocBytes, tableOffset, tableBytes).copy(file);
  toc.copy(file, 96);
  table.copy(file, tableOffset);
  for (const [at, payload] of places) payload.copy(file, at);
  await writeFile(path, file);
}

function header(tocBytes: number, tableOffset: number, tableBytes: number): Buffer {
  const bytes = Buffer.alloc(96);
  bytes.write("AERO", 0, "latin1");
  bytes.writeUInt16LE(1, 6);
  bytes.writeUInt32LE(96, 8);
  bytes.writeBigUInt64LE(96n, 12);
  bytes.writeBigUInt64LE(BigInt(tocBytes), 20);
  bytes.writeBigUInt64LE(BigInt(tableOffset), 28);
  bytes.writeBigUInt64LE(BigInt(tableBytes), 36);
  return bytes.fill(0x11, 52, 68);
}

function tensorIndex(): Buffer {
  const pieces: Buffer[] = [map(1), text("tensors"), arrayHeader(TENSOR_COUNT)];
  for (let i = 0; i < TENSOR_COUNT; i++) {
    const shard = Math.min(Math.floor(i / TENSORS_PER_SHARD), SHARDS - 1);
    const place = i - shard * TENSORS_PER_SHARD;
    const fields: [string, Buffer][] = [
      ["name", text(`model.layers.${shard}.experts.${place}.weight`)],
      ["dtype", uint(1)],
      ["shape", Buffer.from([0x92, 2, 2])],
      ["shard_id", uint(shard)],
      ["data_off", uint(place * TENSOR_BYTES)],
      ["data_len", uint(TENSOR_BYTES)],
      ["flags", uint(0)],
    ];
    pieces.push(map(fields.length), ...fields.flatMap(([key, value]) => [text(key), value]));
  }
  return Buffer.concat(pieces);
}

function zeroDigest(length: number, known: Map<number, Buffer>): Buffer {
  const digest = known.get(length) ?? blake3(Buffer.alloc(length));
  known.set(length, digest);
  return digest;
}

function align(value: number, to: number): number {
  return Math.ceil(value / to) * to;
}

const map = (count: number): Buffer => Buffer.from([0x80 | count]);

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  const head = bytes.length < 32 ? Buffer.from([0xa0 | bytes.length]) : Buffer.from([0xd9, bytes.length]);
  return Buffer.concat([head, bytes]);
}

function uint(value: number): Buffer {
  if (value < 128) return Buffer.from([value]);
  if (value < 256) return Buffer.from([0xcc, value]);
  if (value < 65_536) return Buffer.from([0xcd, value >> 8, value & 0xff]);
  const bytes = Buffer.alloc(5, 0xce);
  bytes.writeUInt32BE(value, 1);
  return bytes;
}

function arrayHeader(count: number): Buffer {
  const bytes = Buffer.alloc(5, 0xdd);
  bytes.writeUInt32BE(count, 1);
  return bytes;
}
