import type { EntryStorage } from "../../model/archive.ts";
import { blockExtent } from "./block-check.ts";
import type { ManifestEntry } from "./manifest.ts";
import type { Vault } from "./vault.ts";

/**
 * What each entry takes of the data section, in the order of the manifest. Of a chunk that holds several small files
 * (pack_offset) nobody can say whose its compressed bytes are.
 */
export function measureEntries({ manifest }: Pick<Vault, "manifest">): readonly (EntryStorage | undefined)[] {
  const users = new Map<string, number>();
  const entries = manifest.entries.records();
  for (const id of entries.flatMap(distinctChunks)) users.set(id, (users.get(id) ?? 0) + 1);
  return entries.map((entry) => {
    if (entry.isDir || entry.packOffset !== undefined) return undefined;
    let ownBytes = 0;
    let sharedBytes = 0;
    for (const id of distinctChunks(entry)) {
      const record = manifest.chunks.get(id);
      if (record === undefined) continue;
      const { byteLength } = blockExtent(record);
      if (users.get(id) === 1) ownBytes += byteLength;
      else sharedBytes += byteLength;
    }
    return { ownBytes, sharedBytes };
  });
}

/** A file of zeros names one chunk many times, and takes it once. */
function distinctChunks({ isDir, chunks }: ManifestEntry): readonly string[] {
  return isDir ? [] : [...new Set(chunks)];
}
