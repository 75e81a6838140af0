import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { FormatError, type Location, UsageError } from "../../base/errors.ts";
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
import type { Engine } from "../../primitives/engine.ts";
import { JsonScanner } from "../../struct/json-scanner.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import { FieldReader } from "../aerovault/manifest/field-reader.ts";
import { normalizePath } from "../aerovault/paths.ts";
import type { EntryContent, PasswordProof } from "./entry-content.ts";
import { Entry1Source, EntryReader, KeptContent } from "./entry-source.ts";
import type { Aerovault1Limits } from "./limits.ts";
import type { DirectoryPlace, ZipRow } from "./zip-directory.ts";

/** A vault of version 1 whose directory was read. Nothing of it is proven before the password is. */
export interface Vault1 {
  readonly source: Source;
  readonly engine: Engine;
  readonly directory: DirectoryPlace;
  readonly meta: ZipRow;
  /** All rows except the meta entry. */
  readonly rows: readonly ZipRow[];
  /** Contents of every file, the meta entry included. */
  readonly contents: ReadonlyMap<ZipRow, EntryContent>;
  readonly proof: PasswordProof;
  readonly limits: Aerovault1Limits;
  readonly warnings: readonly Finding[];
}

/** A vault of version 1 as an archive of files; the meta entry that makes it a vault is not one of them. */
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
      gapBytes: 0,
    };
  }

  /** Finds an entry by its path; slashes at the ends do not matter. */
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
class Vault1Entry implements Entry {
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

/** The container as an archive of this format; refuses any other. */
export function vault1Archive(container: Container): Vault1Archive {
  if (container instanceof Vault1Archive) return container;
  const message = `Cannot treat a ${container.format} container as AeroVault v1`;
  throw new UsageError("usage/aerovault.container", message, { source: container.parts[0]?.label ?? container.format });
}

/** The meta entry has a few hundred bytes; a larger one is refused. */
const MAX_META_BYTES = 1 << 20;

/** The content of the entry that makes a ZIP a vault. */
export interface VaultMeta {
  readonly version: number;
  readonly created: string | undefined;
  readonly modified: string | undefined;
  readonly description: string | undefined;
  readonly fileCount: number | undefined;
}

/** Reads and proves the meta entry. */
export async function readMeta(vault: Vault1, signal?: AbortSignal): Promise<VaultMeta> {
  const { meta, contents, proof } = vault;
  const content = contents.get(meta);
  const at = { source: vault.source.label, offset: meta.localOffset };
  if (content === undefined || meta.size > MAX_META_BYTES) {
    const message = `Cannot read AeroVault v1 meta entry: must have at most ${MAX_META_BYTES} bytes, found ${meta.size}`;
    throw new FormatError("format/aerovault1.meta", message, at);
  }
  const reader = new EntryReader(content, vault, proof);
  const pieces: Bytes[] = [];
  for await (const piece of reader.read(0, meta.size, signal)) pieces.push(piece);
  reader.wipe();
  return decodeMeta(concatBytes(pieces), at);
}

function decodeMeta(bytes: Bytes, at: Location): VaultMeta {
  const place = { source: at.source, offset: at.offset ?? 0, what: "AeroVault v1 meta entry" };
  const scanner = new JsonScanner(decodeJsonText(bytes, place), place);
  scanner.skipSpace();
  const reader = new FieldReader(scanner, "format/aerovault1.meta");
  let version: number | undefined;
  let created: string | undefined;
  let modified: string | undefined;
  let description: string | undefined;
  let fileCount: number | undefined;
  reader.record((key) => {
    if (key === "version") version = reader.whole();
    else if (key === "created") created = reader.orNull(() => reader.text());
    else if (key === "modified") modified = reader.orNull(() => reader.text());
    else if (key === "description") description = reader.orNull(() => reader.text());
    else if (key === "fileCount") fileCount = reader.orNull(() => reader.whole());
    else scanner.skipValue();
  });
  scanner.expectEnd();
  return { version: reader.need(version, "version"), created, modified, description, fileCount };
}
