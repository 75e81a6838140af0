import type { Bytes } from "../../base/bytes.ts";
import { IntegrityError, type Location } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import type { ArchiveStorage, EntryStorage } from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import { longestBurst, planAvec } from "../../model/parity/avec.ts";
import { blockExtent } from "./blocks/check.ts";
import type { ChunkStore } from "./blocks/store.ts";
import type { VaultCipher } from "./cipher.ts";
import { DATA_PARITY, DEFAULT_PARITY_PERCENT, type ExtensionRow, gridOf } from "./extensions/rows.ts";
import type { StoredHeader } from "./header.ts";
import { KDF_COST, type VaultKeys, wipeKeys } from "./keys.ts";
import { PREFIX_BYTES } from "./layout.ts";
import type { AerovaultLimits } from "./limits.ts";
import {
  DEFAULT_BOUNDS,
  DEFAULT_LEVEL,
  type EntryList,
  type Manifest,
  type ManifestEntry,
} from "./manifest/records.ts";

/** Bytes of a vault as they were before the damage. */
export interface HealedPart {
  readonly name: "header" | "manifest" | "extension directory";
  /** In the file. */
  readonly offset: number;
  readonly bytes: Bytes;
  /** "sidecar" if it comes from a file beside the vault, which may belong to another state of the vault. */
  readonly origin?: "sidecar" | undefined;
}

/** A vault whose control region was read and checked: readers and writers work on it. */
export interface Vault {
  readonly source: Source;
  readonly header: StoredHeader;
  readonly keys: VaultKeys;
  readonly cipher: VaultCipher;
  readonly manifest: Manifest;
  /** Nonce and tag of the manifest in the file. */
  readonly manifestSeal: Bytes;
  /** The extension directory; payloads stay in the file until they are read. */
  readonly extensions: readonly ExtensionRow[];
  readonly chunks: ChunkStore;
  readonly limits: AerovaultLimits;
  readonly warnings: readonly Finding[];
  /** Parts that were read from parity because the file is damaged there. Such a vault is not written to. */
  readonly healed: readonly HealedPart[];
}

/** Refuses to write if opening had to heal a part: the write would destroy what could heal the rest. */
export function checkUndamaged({ healed, source }: Pick<Vault, "healed" | "source">, action: string): void {
  const [part] = healed;
  if (part === undefined) return;
  const message = `Cannot ${action}: its ${part.name} is damaged`;
  const at = { source: source.label, offset: part.offset };
  const hint = "The vault is unchanged; run tare vault repair first";
  throw new IntegrityError("integrity/aerovault.healed", message, at, { hint });
}

/** The place of the manifest, for errors. */
export function manifestPlace({ source, header }: Pick<Vault, "source" | "header">): Location {
  return { source: source.label, offset: header.values.manifestOffset };
}

/** Wipes the keys of the vault and closes its file. */
export async function closeVault(vault: Vault): Promise<void> {
  vault.chunks.clear();
  vault.cipher.wipe();
  wipeKeys(vault.keys);
  await vault.source.close();
}

/** What `inspect` and `vault info` report about a vault besides its entries. */
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
    ["unused", `${storage.unusedBytes} stored bytes, and ${storage.gapBytes} bytes between them`],
    ["compression", `zstd, level ${compression.level ?? DEFAULT_LEVEL}`],
    ["chunking", `${chunking.algorithmId}, ${min} to ${max} bytes, ${avg} on average`],
    ["parity", parityText(vault)],
    ["created", manifest.created],
    ["modified", manifest.modified],
    ...others.map(({ extensionId, length }) => ["extension", `${extensionId}, ${length} bytes`] as const),
  ];
}

/** States the longest damage in one place that can be healed: for parity, that counts, not the total damage. */
function parityText({ extensions, manifest }: Vault): string {
  const row = extensions.find(({ extensionId }) => extensionId === DATA_PARITY);
  const percent = manifest.errorCorrectionPct;
  if (row === undefined) return percent === undefined ? "none embedded" : `none embedded (${percent} %)`;
  const stored = [...manifest.chunks.values()].reduce((sum, { blockLen }) => sum + PREFIX_BYTES + blockLen, 0);
  const burst = longestBurst(planAvec(gridOf(manifest), stored));
  return `embedded, ${percent ?? DEFAULT_PARITY_PERCENT} %; up to ${burst} damaged bytes in a row can be healed wherever they are`;
}

function countEntries(entries: EntryList): { readonly files: number; readonly directories: number } {
  let directories = 0;
  for (let i = 0; i < entries.length; i++) if (entries.isDir(i)) directories++;
  return { files: entries.length - directories, directories };
}

/**
 * The bytes of the data section that each entry takes, in the order of the manifest. For a chunk that holds several
 * small files (pack_offset), the compressed bytes cannot be assigned to one file.
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

/** A file of zeros names one chunk many times, but stores it once. */
function distinctChunks({ isDir, chunks }: ManifestEntry): readonly string[] {
  return isDir ? [] : [...new Set(chunks)];
}
