import type { Extent } from "../../../bytes/extents.ts";

/**
 * Where chunks must begin, for files whose structure is known (dossier 15): at the start and at the end of every tensor,
 * so that the same weights give the same chunks in every format. What lies between tensors is a region of its own.
 */

/** Tensors from this size on have chunks of their own; smaller neighbours share them. */
const OWN_CHUNK_BYTES = 16 << 10;

/** Runs that are cut each for itself: in order, without gaps, from 0 to `byteLength`. No extents give one region. */
export function planRegions(byteLength: number, tensors: readonly Extent[]): readonly Extent[] {
  const regions: Extent[] = [];
  let position = 0;
  const close = (end: number): void => {
    if (end > position) regions.push({ offset: position, byteLength: end - position });
    position = Math.max(position, end);
  };
  for (const run of joinSmall(mergeOverlaps(byteLength, tensors))) {
    close(run.offset);
    close(run.offset + run.byteLength);
  }
  close(byteLength);
  return regions;
}

/** Extents inside the file by offset, none of them empty; those that share bytes become one. */
function mergeOverlaps(byteLength: number, extents: readonly Extent[]): Extent[] {
  const sorted = extents
    .filter((extent) => extent.byteLength > 0 && extent.offset >= 0 && extent.offset <= byteLength - extent.byteLength)
    .sort((a, b) => a.offset - b.offset);
  const merged: Extent[] = [];
  for (const extent of sorted) {
    const last = merged.at(-1);
    if (last === undefined || extent.offset >= last.offset + last.byteLength) {
      merged.push(extent);
      continue;
    }
    const end = Math.max(last.offset + last.byteLength, extent.offset + extent.byteLength);
    merged[merged.length - 1] = { offset: last.offset, byteLength: end - last.offset };
  }
  return merged;
}

/** Runs of small tensors, with the padding between them, become one. */
function joinSmall(extents: readonly Extent[]): Extent[] {
  const runs: Extent[] = [];
  let group: { offset: number; end: number } | undefined;
  const flush = (): void => {
    if (group !== undefined) runs.push({ offset: group.offset, byteLength: group.end - group.offset });
    group = undefined;
  };
  for (const extent of extents) {
    if (extent.byteLength >= OWN_CHUNK_BYTES) {
      flush();
      runs.push(extent);
    } else if (group === undefined || extent.offset - group.end >= OWN_CHUNK_BYTES) {
      flush();
      group = { offset: extent.offset, end: extent.offset + extent.byteLength };
    } else {
      group.end = extent.offset + extent.byteLength;
    }
  }
  flush();
  return runs;
}
