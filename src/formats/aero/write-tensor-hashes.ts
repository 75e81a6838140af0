import type { Bytes } from "../../base/bytes.ts";
import type { Extent } from "../../bytes/extents.ts";
import { isSlice } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { WriteContext } from "../../model/format.ts";
import type { Tensor } from "../../model/tensor.ts";

/** Below this, starting a worker costs more than the copying thread saves. */
const MIN_BYTES = 64 << 20;

/** The tensors of one source, and which ones of the list they are. */
interface SourceTensors {
  readonly extents: Extent[];
  readonly places: number[];
}

/**
 * True where a worker can hash these tensors from their own files while they are being copied: the bytes are the same
 * and they are in the page cache, so that one core hashes them beside the one that hashes shards and pages. Sources that
 * only this thread has, such as a URL or a cast, are never read twice.
 */
export function canHashAside(tensors: readonly Tensor[]): boolean {
  let byteLength = 0;
  for (const tensor of tensors) {
    if (tensor.source().descriptor === undefined) return false;
    byteLength += tensor.byteLength;
  }
  return byteLength >= MIN_BYTES;
}

/** BLAKE3-256 of every tensor, in their order. */
export async function hashAside(
  tensors: readonly Tensor[],
  { engine, signal }: Pick<WriteContext, "engine" | "signal">,
): Promise<readonly Bytes[]> {
  const bySource = new Map<Source, SourceTensors>();
  for (const [place, tensor] of tensors.entries()) {
    const source = tensor.source();
    const [whole, offset] = isSlice(source) ? [source.whole, source.start] : [source, 0];
    const group = bySource.get(whole) ?? { extents: [], places: [] };
    bySource.set(whole, group);
    group.extents.push({ offset, byteLength: tensor.byteLength });
    group.places.push(place);
  }
  const digests = new Array<Bytes>(tensors.length);
  for (const [source, { extents, places }] of bySource) {
    const found = await engine.digestExtents("blake3", source, extents, { signal });
    for (const [i, place] of places.entries()) digests[place] = found[i] as Bytes;
  }
  return digests;
}
