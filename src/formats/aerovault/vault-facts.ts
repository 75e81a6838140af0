import type { ArchiveStorage } from "../../model/archive.ts";
import { longestBurst, planAvec } from "../../model/parity/avec.ts";
import type { EntryList } from "./entry-list.ts";
import { DATA_PARITY } from "./extension-payload.ts";
import { KDF_COST } from "./keys.ts";
import { PREFIX_BYTES } from "./layout.ts";
import { DEFAULT_BOUNDS, DEFAULT_LEVEL } from "./manifest.ts";
import { DEFAULT_PARITY_PERCENT, gridOf } from "./parity-grid.ts";
import type { Vault } from "./vault.ts";

/** What `inspect` and `vault info` say about a vault beyond its entries. */
export function vaultFacts(vault: Vault, storage: ArchiveStorage): readonly (readonly [string, string])[] {
  const { manifest, extensions, keys } = vault;
  const { compression, chunking } = manifest.wrappers;
  const { min, avg, max } = chunking.bounds ?? DEFAULT_BOUNDS;
  const { files, directories } = countEntries(manifest.entries);
  const others = extensions.filter(({ extensionId }) => !extensionId.startsWith("error-correction"));
  return [
    ["encryption", keys.lane === "plain" ? "none" : `AES-256-GCM-SIV, Argon2id with ${KDF_COST.memoryKib >> 10} MiB`],
    ["files", `${files}, and ${directories} ${directories === 1 ? "directory" : "directories"}`],
    [
      "contents",
      `${storage.logicalBytes} bytes in ${storage.chunkCount} chunks of ${storage.storedBytes} stored bytes`,
    ],
    ["unused", `${storage.unusedBytes} stored bytes`],
    ["compression", `zstd, level ${compression.level ?? DEFAULT_LEVEL}`],
    ["chunking", `${chunking.algorithmId}, ${min} to ${max} bytes, ${avg} on average`],
    ["parity", parityText(vault)],
    ["created", manifest.created],
    ["modified", manifest.modified],
    ...others.map(({ extensionId, length }) => ["extension", `${extensionId}, ${length} bytes`] as const),
  ];
}

/** With what a person who relies on it has to know: damage in one place counts, not how much there is in all. */
function parityText({ extensions, manifest }: Vault): string {
  const row = extensions.find(({ extensionId }) => extensionId === DATA_PARITY);
  const percent = manifest.errorCorrectionPct;
  if (row === undefined) return percent === undefined ? "none" : `none embedded (${percent} %)`;
  const stored = [...manifest.chunks.values()].reduce((sum, { blockLen }) => sum + PREFIX_BYTES + blockLen, 0);
  const burst = longestBurst(planAvec(gridOf(manifest), stored));
  return `embedded, ${percent ?? DEFAULT_PARITY_PERCENT} %; up to ${burst} damaged bytes in a row can be healed wherever they are`;
}

function countEntries(entries: EntryList): { readonly files: number; readonly directories: number } {
  let directories = 0;
  for (let i = 0; i < entries.length; i++) if (entries.isDir(i)) directories++;
  return { files: entries.length - directories, directories };
}
