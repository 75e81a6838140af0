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
import { normalizePath } from "../aerovault/paths.ts";
import { EntryReader } from "./entry-reader.ts";
import { Entry1Source, KeptContent } from "./entry-source.ts";
import type { Vault1 } from "./vault1.ts";
import type { ZipRow } from "./zip-directory.ts";

/** A vault of version 1 as an archive of files; the entry that makes it a vault is not one of them. */
export class Vault1Archive implements Archive {
  readonly kind = "archive";
  readonly format = "aerovault1";
  readonly version = "1";
  readonly parts: readonly Part[];
  readonly entries: readonly Vault1Entry[];
  readonly warnings: readonly Finding[];
  readonly vault: Vault1;
  readonly #kept = new KeptContent();
  #index: EntryIndex<Vault1Entry> | undefined;

  constructor(vault: Vault1) {
    const { source, rows, warnings } = vault;
    this.vault = vault;
    this.parts = [{ label: source.label, byteLength: source.byteLength, source }];
    this.entries = rows.map((row) => new Vault1Entry(row, vault, this.#kept));
    this.warnings = warnings;
  }

  get facts(): readonly (readonly [string, string])[] {
    return [
      ["encryption", "WinZip AES-256, PBKDF2-HMAC-SHA-1 with 1000 iterations: quickly guessed"],
      ["names", "not encrypted, and protected by nothing"],
    ];
  }

  get storage(): ArchiveStorage {
    const files = this.vault.rows.filter(({ type }) => type === "file");
    const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
    return {
      chunkCount: files.length,
      logicalBytes: sum(files.map(({ size }) => size)),
      storedBytes: sum(files.map(({ compressedSize }) => compressedSize)),
      unusedBytes: 0,
    };
  }

  /** By its path; slashes at the ends do not matter. */
  entry(path: string): Vault1Entry {
    this.#index ??= new EntryIndex(this.entries, this.vault.source.label);
    return this.#index.find(path, normalizePath(path));
  }

  async close(): Promise<void> {
    this.#kept.clear();
    for (const entry of this.entries) entry.wipe();
    await this.vault.proof.wipe();
    await this.vault.source.close();
  }
}

/** A file or directory of a vault of version 1. */
export class Vault1Entry implements Entry {
  readonly row: ZipRow;
  readonly #vault: Vault1;
  readonly #kept: KeptContent;
  #reader: EntryReader | undefined;

  constructor(row: ZipRow, vault: Vault1, kept: KeptContent) {
    this.row = row;
    this.#vault = vault;
    this.#kept = kept;
  }

  get path(): string {
    return this.row.path;
  }

  get type(): Entry["type"] {
    return this.row.type;
  }

  get size(): number {
    return this.row.size;
  }

  get modified(): number | undefined {
    return this.row.modified;
  }

  source(): Source {
    const { source, contents, proof, limits } = this.#vault;
    const content = contents.get(this.row);
    if (content === undefined) throw notAFile(this.path, source.label);
    this.#reader ??= new EntryReader(content, this.#vault, proof);
    return new Entry1Source(this.#reader, { kept: this.#kept, keptBytes: limits.keptBytes });
  }

  wipe(): void {
    this.#reader?.wipe();
  }
}

/** The container as a model of this format; another one is refused. */
export function vault1Archive(container: Container): Vault1Archive {
  if (container instanceof Vault1Archive) return container;
  const message = `Cannot treat a ${container.format} container as AeroVault v1`;
  throw new UsageError("usage/aerovault.container", message, { source: container.parts[0]?.label ?? container.format });
}
