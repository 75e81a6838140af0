import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { Shape } from "../../../model/shape.ts";
import { GCM_NONCE_BYTES, GCM_TAG_BYTES } from "../../../primitives/cipher/aes.ts";
import { ByteWriter } from "../../../struct/byte-writer.ts";

/** Stored bytes of a tensor are cut into so many, each sealed by itself. */
export const SEGMENT_BYTES = 64 << 10;
/** A full segment with its tag. */
export const SEALED_SEGMENT_BYTES = SEGMENT_BYTES + GCM_TAG_BYTES;
/** Random bytes in front of a tensor's segments: the first part of every nonce. */
export const NONCE_PREFIX_BYTES = 7;

/** Bytes in the file for a tensor whose packed or raw form has `byteLength`; an empty one has none. */
export function sealedByteLength(byteLength: number): number {
  if (byteLength === 0) return 0;
  return NONCE_PREFIX_BYTES + byteLength + Math.ceil(byteLength / SEGMENT_BYTES) * GCM_TAG_BYTES;
}

/** The inverse; undefined where no length gives this one. */
export function openedByteLength(sealed: number): number | undefined {
  if (sealed === 0) return 0;
  const body = sealed - NONCE_PREFIX_BYTES;
  const last = body % SEALED_SEGMENT_BYTES;
  // A last segment has at least one byte beside its tag.
  if (body <= GCM_TAG_BYTES || (last !== 0 && last <= GCM_TAG_BYTES)) return undefined;
  return body - Math.ceil(body / SEALED_SEGMENT_BYTES) * GCM_TAG_BYTES;
}

/** What the tag of every segment covers beside the segment itself, so that none fits another tensor, place or file. */
export interface SealedTensor {
  readonly fileId: Bytes;
  readonly name: string;
  /** Type id. */
  readonly dtype: number;
  readonly shape: Shape;
  /** Bytes of the tensor itself, before compression. */
  readonly rawSize: number;
}

/** Bytes for everything but the segment's number, which comes last. */
export function tensorContext({ fileId, name, dtype, shape, rawSize }: SealedTensor): Bytes {
  const nameBytes = encodeUtf8(name);
  const writer = new ByteWriter(fileId.byteLength + nameBytes.byteLength + 8 * shape.length + 12);
  writer.bytes(fileId);
  writer.u16(nameBytes.byteLength);
  writer.bytes(nameBytes);
  writer.u8(dtype);
  writer.u8(shape.length);
  for (const dimension of shape) writer.u64(dimension);
  writer.u64(rawSize);
  return writer.take();
}

/** The associated data of one segment: the tensor's context and the segment's number, u32 little-endian. */
export function segmentContext(context: Bytes, number: number): Bytes {
  return concatBytes([context, u32(number)]);
}

/** 7 random bytes of the tensor, the segment's number, and 1 for the last segment: cutting segments off is noticed. */
export function segmentNonce(prefix: Bytes, number: number, place: "inner" | "last"): Bytes {
  const nonce = new Uint8Array(GCM_NONCE_BYTES);
  nonce.set(prefix);
  nonce.set(u32(number), NONCE_PREFIX_BYTES);
  nonce[GCM_NONCE_BYTES - 1] = place === "last" ? 1 : 0;
  return nonce;
}

function u32(value: number): Bytes {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}
