import type { PageDigests, PagedRun } from "../../model/members.ts";
import type { AeroModel } from "./aero-model.ts";

/** The page digests of every shard (PHSH chunks), as far as they have them. */
export async function aeroPageDigests(model: AeroModel, signal?: AbortSignal): Promise<PageDigests> {
  const { shards } = model.content;
  const runs: PagedRun[] = [];
  let bare = shards.hidden.length;
  for (const { name, offset, byteLength } of shards.weights.values()) {
    const pages = await shards.named(name).readPages(signal);
    if (pages === undefined) bare++;
    else runs.push({ offset, byteLength, pageBytes: pages.pageBytes, digests: pages.digests });
  }
  return { runs, coverage: bare === 0 ? "all" : "some" };
}
