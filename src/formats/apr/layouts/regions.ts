import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, type Location } from "../../../base/errors.ts";
import { checkedAdd } from "../../../base/integers.ts";
import { checkLimit } from "../../../base/limits.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext } from "../../../model/format.ts";
import { Metadata } from "../../../model/metadata.ts";
import type { WildLimits } from "../limits.ts";
import { decodeMetadata, shadowedLosses } from "../metadata.ts";
import type { Tolerated } from "./layout-facts.ts";

/** A run of a file that a header describes. */
export interface Region extends Extent {
  /** The field that gives its place, as docs/formats/apr-wild.md spells it. */
  readonly path: string;
}

/** Reads a region that must be inside the file; allocates nothing for one that is not. */
export async function readRegion(source: Source, region: Region, signal?: AbortSignal | undefined): Promise<Bytes> {
  const { offset, byteLength, path } = region;
  const at = { source: source.label, offset: Math.min(offset, source.byteLength), path };
  const end = checkedAdd(offset, byteLength, at);
  if (end <= source.byteLength) return source.read(offset, byteLength, { signal });
  const message = `Cannot read APR: ${path} must end at or before ${source.byteLength}, found ${end}`;
  throw new FormatError("format/apr.truncated", message, at, {
    hint: "The file is cut off or the field is damaged; get it again",
  });
}

export interface MetadataContext {
  readonly limits: WildLimits;
  readonly tolerated: Tolerated;
  readonly signal?: AbortSignal | undefined;
}

/** The JSON object at a region; a length of 0 is no metadata. */
export async function readMetadata(source: Source, region: Region, context: MetadataContext): Promise<Metadata> {
  const { limits, tolerated, signal } = context;
  const { offset, byteLength, path } = region;
  const at = { source: source.label, offset, path };
  checkLimit(byteLength, limits.metadataBytes, "APR metadata bytes", "limit/apr.metadata-bytes", at);
  if (byteLength === 0) return new Metadata();
  const bytes = await readRegion(source, region, signal);
  const place = { source: source.label, offset, maxValues: limits.metadataValues };
  const { entries, duplicates, shadowed, padding } = decodeMetadata(bytes, place);
  for (const key of duplicates) {
    const message = `Metadata has the key "${key}" twice; the last value counts`;
    tolerated.warn("format/apr.duplicate-key", message, at, { name: key });
  }
  for (const { name, reason } of shadowedLosses(shadowed)) tolerated.lose(name, reason);
  if (padding !== "") {
    const message = `${padding.length} bytes of padding are counted as metadata`;
    tolerated.warn("format/apr.metadata-padding", message, at);
  }
  return new Metadata(entries);
}

/** An LZ4 match adds at most 255 bytes for each byte it takes, so a longer output is impossible. */
const LZ4_MOST = 255;
/** The length before an LZ4 block, as lz4_flex prepends it. */
const PREFIX_BYTES = 4;

export interface Packed {
  readonly compression: "lz4" | "zstd";
  readonly at: Location;
  /** The unpacked size that the file states; undefined if it states none. */
  readonly unpackedSize?: number | undefined;
}

/** Unpacks data that programs compress as a whole: an LZ4 block after its length, or a zstd frame, sized or not. */
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
