import { equalBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import {
  type Archive,
  type ArchiveStorage,
  type Container,
  type Entry,
  EntryIndex,
  notAFile,
} from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import type { Part } from "../../model/model.ts";
import { KDF_COST } from "../aerovault/keys.ts";
import { normalizePath } from "../aerovault/paths.ts";
import { Entry2Source, EntryChunks } from "./entries.ts";
import { PREFIX_BYTES } from "./layout.ts";
import { closeVault2, dataOffsetOf, type NamedRow, type Vault2 } from "./vault.ts";

/** A vault of version 2 as an archive of files. */
export class Vault2Archive implements Archive {
  readonly kind = "archive";
  readonly format = "aerovault2";
  readonly version = "2";
  readonly parts: readonly Part[];
  readonly entries: readonly Vault2Entry[];
  readonly warnings: readonly Finding[];
  readonly vault: Vault2;
  #index: EntryIndex<Vault2Entry> | undefined;
  #storage: ArchiveStorage | undefined;

  constructor(vault: Vault2) {
    const { source, rows, warnings } = vault;
    this.vault = vault;
    this.parts = [{ label: source.label, byteLength: source.byteLength, source }];
    this.entries = rows.map((row) => new Vault2Entry(row, vault));
    this.warnings = warnings;
  }

  get facts(): readonly (readonly [string, string])[] {
    const { header, manifest, keys, rows } = this.vault;
    const unbound = rows.filter(({ isDir, fileId }) => !isDir && fileId === undefined).length;
    const cipher = keys.chunks.layers === "one" ? "AES-256-GCM-SIV" : "AES-256-GCM-SIV inside ChaCha20-Poly1305";
    return [
      ["encryption", `${cipher}, Argon2id with ${KDF_COST.memoryKib >> 10} MiB`],
      ["chunks", `${header.values.chunkSize} bytes`],
      [
        "binding",
        unbound === 0 ? "chunks know their file" : `chunks of ${unbound} files do not know which file they are of`,
      ],
      ["created", manifest.created],
      ["modified", manifest.modified],
      ...(manifest.description === undefined ? [] : [["description", manifest.description] as const]),
    ];
  }

  get storage(): ArchiveStorage {
    this.#storage ??= measureStorage(this.vault);
    return this.#storage;
  }

  /** Finds an entry by its path; slashes at the ends do not matter. */
  entry(path: string): Vault2Entry {
    this.#index ??= new EntryIndex(this.entries, this.vault.source.label);
    return this.#index.find(path, normalizePath(path));
  }

  close(): Promise<void> {
    return closeVault2(this.vault);
  }
}

/** A file or directory of a vault of version 2. */
class Vault2Entry implements Entry {
  readonly row: NamedRow;
  readonly #vault: Vault2;

  constructor(row: NamedRow, vault: Vault2) {
    this.row = row;
    this.#vault = vault;
  }

  get path(): string {
    return this.row.path;
  }

  get type(): Entry["type"] {
    return this.row.isDir ? "directory" : "file";
  }

  /** 0 for a directory, whatever the manifest says. */
  get size(): number {
    return this.row.isDir ? 0 : this.row.size;
  }

  /** The file's own time; for a directory, its creation time. The text may be anything. */
  get modified(): number | undefined {
    const time = Date.parse(this.row.modified);
    return Number.isNaN(time) ? undefined : time;
  }

  /** Copies share their chunks. */
  sharesContent(other: Entry): boolean {
    if (!(other instanceof Vault2Entry) || other.#vault !== this.#vault) return false;
    const { offset, size, chunkCount, fileId } = this.row;
    const { row } = other;
    const sameId =
      fileId === undefined || row.fileId === undefined ? fileId === row.fileId : equalBytes(fileId, row.fileId);
    return sameId && row.offset === offset && row.size === size && row.chunkCount === chunkCount;
  }

  source(): Source {
    if (this.row.isDir) throw notAFile(this.path, this.#vault.source.label);
    return new Entry2Source(new EntryChunks(this.row, this.#vault));
  }
}

/** Deleted files stay in the data section: bytes that no entry reaches are unused. */
function measureStorage(vault: Vault2): ArchiveStorage {
  const storedBytes = vault.source.byteLength - dataOffsetOf(vault);
  const overhead = PREFIX_BYTES + vault.keys.chunks.sealBytes;
  const files = vault.rows.filter(({ isDir }) => !isDir);
  const extents = files
    .map(({ offset, size, chunkCount }) => ({ start: offset, end: offset + size + chunkCount * overhead, chunkCount }))
    .sort((a, b) => a.start - b.start);
  let [used, reached, chunkCount] = [0, 0, 0];
  for (const { start, end, chunkCount: count } of extents) {
    if (end <= reached) continue; // a copy
    used += Math.min(end, storedBytes) - Math.min(Math.max(start, reached), storedBytes);
    reached = end;
    chunkCount += count;
  }
  const logicalBytes = files.reduce((sum, { size }) => sum + size, 0);
  return { chunkCount, logicalBytes, storedBytes, unusedBytes: Math.max(storedBytes - used, 0), gapBytes: 0 };
}

/** The container as an archive of this format; refuses any other. */
export function vault2Archive(container: Container): Vault2Archive {
  if (container instanceof Vault2Archive) return container;
  const message = `Cannot treat a ${container.format} container as AeroVault v2`;
  throw new UsageError("usage/aerovault.container", message, { source: container.parts[0]?.label ?? container.format });
}
