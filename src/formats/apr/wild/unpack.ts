import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, type Location } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import type { OpenContext } from "../../../model/format.ts";
import type { WildLimits } from "./limits.ts";

/** A match of LZ4 adds at most 255 bytes for each byte that it takes, so a longer output is a lie. */
const LZ4_MOST = 255;
/** The length in front of an LZ4 block, as lz4_flex prepends it. */
const PREFIX_BYTES = 4;

export interface Packed {
  readonly compression: "lz4" | "zstd";
  readonly at: Location;
  /** What the file says comes out; undefined where it does not say. */
  readonly unpackedSize?: number | undefined;
}

/** Unpacks what programs compress as a whole: an LZ4 block behind its length, or a zstd frame, sized or not. */
export async function unpack(
  bytes: Bytes,
  packed: Packed,
  context: Pick<OpenContext, "engine"> & { readonly limits: WildLimits },
): Promise<Bytes> {
  const { compression, at, unpackedSize } = packed;
  const { unpackedBytes } = context.limits;
  checkLimit(unpackedSize ?? 0, unpackedBytes, "unpacked APR bytes", "limit/apr.unpacked-bytes", at);
  if (compression === "lz4") return unpackLz4(bytes, packed, context);
  return context.engine.zstdDecompress(bytes, {
    maxBytes: unpackedSize ?? unpackedBytes,
    ...(unpackedSize === undefined ? {} : { exactBytes: unpackedSize }),
    at,
  });
}

async function unpackLz4(
  bytes: Bytes,
  { at, unpackedSize }: Packed,
  { engine, limits }: Pick<OpenContext, "engine"> & { readonly limits: WildLimits },
): Promise<Bytes> {
  if (bytes.byteLength < PREFIX_BYTES) {
    const message = `Cannot unpack APR: 4 bytes of length must precede the LZ4 block, found ${bytes.byteLength}`;
    throw new FormatError("format/apr.packed", message, at);
  }
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  if (unpackedSize !== undefined && size !== unpackedSize) {
    const message = `Cannot unpack APR: the length before the LZ4 block must be ${unpackedSize}, found ${size}`;
    throw new FormatError("format/apr.packed", message, at);
  }
  checkLimit(size, limits.unpackedBytes, "unpacked APR bytes", "limit/apr.unpacked-bytes", at);
  const block = bytes.subarray(PREFIX_BYTES);
  if (size > block.byteLength * LZ4_MOST) {
    const message = `Cannot unpack APR: ${block.byteLength} bytes of LZ4 must give at most ${block.byteLength * LZ4_MOST} bytes, found ${size}`;
    throw new FormatError("format/apr.packed", message, at);
  }
  const codec = await engine.lz4();
  const content = new Uint8Array(size);
  codec.decode(block, content, { ...at, offset: (at.offset ?? 0) + PREFIX_BYTES });
  return content;
}
