import type { Bytes } from "../../base/bytes.ts";
import { MsgpackWriter } from "../../primitives/encoding/msgpack-writer.ts";
import { HASH_BYTES } from "./layout.ts";

/**
 * Bytes of an IHSH payload. Its length is part of what it hashes, so it is fixed; the MessagePack value in front is
 * shorter, and readers that take the first value and readers that take the chunk as a whole find the same digest.
 */
export const CONTROL_HASH_BYTES = 256;

/** The IHSH payload (AIP-0001): a digest over the bytes 0 … `coveredBytes`, TOC digests zeroed. */
export function encodeControlHash(coveredBytes: number, digest: Bytes): Bytes {
  const writer = new MsgpackWriter();
  writer.map(3);
  writer.string("algo");
  writer.string("blake3-256");
  writer.string("covered_ranges");
  writer.array(1);
  writer.array(2);
  writer.uint(0);
  writer.uint(coveredBytes);
  writer.string("digest");
  writer.bin(digest);
  const payload = new Uint8Array(CONTROL_HASH_BYTES);
  payload.set(writer.take());
  return payload;
}

/** Pages of a shard; the last one may be short, an empty shard has none. */
export function pageCount(shardBytes: number, pageBytes: number): number {
  return Math.ceil(shardBytes / pageBytes);
}

/** The PHSH payload (AIP-0002). */
export function encodePageHashes(shardName: string, pageBytes: number, digests: readonly Bytes[]): Bytes {
  const writer = new MsgpackWriter();
  writePageHeader(writer, shardName, pageBytes, digests.length);
  for (const digest of digests) writer.bin(digest);
  return writer.take();
}

/** The length that `encodePageHashes` will have: a digest takes its 32 bytes and two of bin header. */
export function measurePageHashes(shardName: string, pageBytes: number, count: number): number {
  const writer = new MsgpackWriter();
  writePageHeader(writer, shardName, pageBytes, count);
  return writer.take().byteLength + count * (2 + HASH_BYTES);
}

function writePageHeader(writer: MsgpackWriter, shardName: string, pageBytes: number, count: number): void {
  writer.map(3);
  writer.string("shard_name");
  writer.string(shardName);
  writer.string("page_size");
  writer.uint(pageBytes);
  writer.string("digests");
  writer.array(count);
}
