import type { Bytes } from "../../base/bytes.ts";
import { type Extent, planBatches } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";

/** Unwanted bytes worth fetching to save a round trip: the length of the opening read. */
const MAX_GAP = 256 << 10;
/** Longer runs are fetched apart, so that no one buffer grows beyond what every system has. */
const MAX_BATCH = 1 << 30;

/** What is to be fetched: `wanted` in any case, `welcome` only where it comes along with something wanted. */
export interface TogetherRequest<E extends Extent> {
  readonly wanted: readonly E[];
  readonly welcome?: readonly E[];
  readonly signal?: AbortSignal | undefined;
}

/** Fetches extents in as few reads as their places allow; the result has views, one for each extent fetched. */
export async function readTogether<E extends Extent>(
  source: Source,
  opening: Bytes,
  request: TogetherRequest<E>,
): Promise<Map<E, Bytes>> {
  const { wanted, welcome = [], signal } = request;
  const found = new Map<E, Bytes>();
  const missing: E[] = [];
  const needed = new Set(wanted);
  for (const extent of [...wanted, ...welcome]) {
    const end = extent.offset + extent.byteLength;
    if (end <= opening.byteLength) found.set(extent, opening.subarray(extent.offset, end));
    else missing.push(extent);
  }
  missing.sort((a, b) => a.offset - b.offset);
  for (const batch of planBatches(missing, { maxGap: MAX_GAP, maxBytes: MAX_BATCH })) {
    if (!batch.members.some((member) => needed.has(member))) continue;
    const bytes = await source.read(batch.offset, batch.byteLength, { signal });
    for (const member of batch.members) {
      const start = member.offset - batch.offset;
      found.set(member, bytes.subarray(start, start + member.byteLength));
    }
  }
  return found;
}
