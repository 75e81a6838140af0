import type { Bytes } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { checkedAdd } from "../../../base/integers.ts";
import { checkLimit } from "../../../base/limits.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { Source } from "../../../bytes/source.ts";
import { Metadata } from "../../../model/metadata.ts";
import { decodeMetadata } from "../metadata.ts";
import type { Tolerated } from "./details.ts";
import type { WildLimits } from "./limits.ts";

/** A run of a file that a header announces. */
export interface Region extends Extent {
  /** As docs/formats/apr-wild.md spells the field that says where it is. */
  readonly path: string;
}

/** Reads a region that must lie inside the file; nothing is allocated for one that does not. */
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
  const { entries, duplicates, trailingBytes } = decodeMetadata(bytes, place);
  for (const key of duplicates) {
    const message = `Metadata has the key "${key}" twice; the last value counts`;
    tolerated.warn("format/apr.duplicate-key", message, at, { name: key });
  }
  if (trailingBytes > 0) {
    const message = `${trailingBytes} bytes of padding are counted as metadata`;
    tolerated.warn("format/apr.metadata-padding", message, at);
  }
  return new Metadata(entries);
}
