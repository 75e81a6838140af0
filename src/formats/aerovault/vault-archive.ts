import { equalBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import {
  type Archive,
  type ArchiveStorage,
  type Container,
  type Entry,
  EntryIndex,
  type EntryStorage,
  notAFile,
} from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import type { Part } from "../../model/model.ts";
import { EntrySource, planEntry } from "./entry-source.ts";
import { FORMAT_MAJOR, PREFIX_BYTES } from "./layout.ts";
import type { ManifestEntry } from "./manifest.ts";
import { normalizePath } from "./paths.ts";
import { closeVault, manifestPlace, type Vault } from "./vault.ts";
import { vaultFacts } from "./vault-facts.ts";

/** A vault as an archive of files. */
export class VaultArchive implements Archive {
  readonly kind = "archive";
  readonly format = "aerovault";
  readonly version = String(FORMAT_MAJOR);
  readonly parts: readonly Part[];
  readonly entries: readonly VaultEntry[];
  readonly warnings: readonly Finding[];
  /** What writers go on from. */
  readonly vault: Vault;
  #index: EntryIndex<VaultEntry> | undefined;
  #storage: ArchiveStorage | undefined;

  constructor(vault: Vault) {
    const { source, warnings } = vault;
    this.vault = vault;
    this.parts = [{ label: source.label, byteLength: source.byteLength, source }];
    this.entries = entriesOf(vault);
    this.warnings = warnings;
  }

  get facts(): readonly (readonly [string, string])[] {
    return vaultFacts(this.vault, this.storage);
  }

  get storage(): ArchiveStorage {
    this.#storage ??= measureStorage(this.vault);
    return this.#storage;
  }

  async entryStorage(): Promise<readonly (EntryStorage | undefined)[]> {
    return (await import("./entry-storage.ts")).measureEntries(this.vault);
  }

  /** By its path; slashes at the ends do not matter. */
  entry(path: string): VaultEntry {
    this.#index ??= new EntryIndex(this.entries, this.vault.source.label);
    return this.#index.find(path, normalizePath(path));
  }

  close(): Promise<void> {
    return closeVault(this.vault);
  }
}

/** A file or directory of a vault. */
export class VaultEntry implements Entry {
  /** In the manifest. */
  readonly #index: number;
  readonly #vault: Vault;

  constructor(index: number, vault: Vault) {
    this.#index = index;
    this.#vault = vault;
  }

  /** As the manifest has it. */
  get record(): ManifestEntry {
    return this.#vault.manifest.entries.record(this.#index);
  }

  get path(): string {
    return this.#vault.manifest.entries.path(this.#index);
  }

  get type(): Entry["type"] {
    return this.#vault.manifest.entries.isDir(this.#index) ? "directory" : "file";
  }

  /** 0 for a directory, whatever the manifest says. */
  get size(): number {
    const { entries } = this.#vault.manifest;
    return entries.isDir(this.#index) ? 0 : entries.size(this.#index);
  }

  get modified(): number | undefined {
    const time = this.#vault.manifest.entries.modified(this.#index);
    return Number.isNaN(time) ? undefined : time;
  }

  get mode(): number | undefined {
    return this.#vault.manifest.entries.mode(this.#index);
  }

  /** Chunk ids name contents, in vaults of one key: copies of a vault, its later states, and all that are not encrypted. */
  sharesContent(other: Entry): boolean {
    if (!(other instanceof VaultEntry)) return false;
    const { size, chunks, packOffset = 0 } = this.record;
    const { record } = other;
    return (
      record.size === size &&
      (record.packOffset ?? 0) === packOffset &&
      record.chunks.length === chunks.length &&
      record.chunks.every((id, i) => id === chunks[i]) &&
      equalBytes(other.#vault.keys.chunkId, this.#vault.keys.chunkId)
    );
  }

  source(): Source {
    const { record } = this;
    const { manifest, chunks, keys } = this.#vault;
    const at = manifestPlace(this.#vault);
    if (record.isDir) throw notAFile(record.path, at.source);
    const plan = planEntry(record, { chunks: manifest.chunks, store: chunks, lane: keys.lane }, at);
    return new EntrySource(record, plan, chunks);
  }
}

function measureStorage({ manifest }: Vault): ArchiveStorage {
  const used = new Set<string>();
  let logicalBytes = 0;
  for (const { isDir, size, chunks } of manifest.entries.records()) {
    if (isDir) continue;
    logicalBytes += size;
    for (const id of chunks) used.add(id);
  }
  let storedBytes = 0;
  let unusedBytes = 0;
  for (const { id, blockLen } of manifest.chunks.values()) {
    storedBytes += PREFIX_BYTES + blockLen;
    if (!used.has(id)) unusedBytes += PREFIX_BYTES + blockLen;
  }
  return { chunkCount: manifest.chunks.size, logicalBytes, storedBytes, unusedBytes };
}

/** No `Array.from`, which takes four times as long. */
function entriesOf(vault: Vault): readonly VaultEntry[] {
  const entries: VaultEntry[] = [];
  for (let index = 0; index < vault.manifest.entries.length; index++) entries.push(new VaultEntry(index, vault));
  return entries;
}

/** The container as a model of this format; another one is refused. */
export function vaultArchive(container: Container): VaultArchive {
  if (container instanceof VaultArchive) return container;
  const message = `Cannot treat a ${container.format} container as AeroVault`;
  throw new UsageError("usage/aerovault.container", message, { source: container.parts[0]?.label ?? container.format });
}
