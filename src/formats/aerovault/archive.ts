import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, type Location, UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { allocateFor, ReadGuard } from "../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
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
import type { ChunkStore } from "./blocks/store.ts";
import type { Lane } from "./keys.ts";
import { FORMAT_MAJOR, HEADER_BYTES, PREFIX_BYTES } from "./layout.ts";
import type { ChunkRecord, ManifestEntry } from "./manifest/records.ts";
import { normalizePath } from "./paths.ts";
import { closeVault, manifestPlace, measureEntries, type Vault, vaultFacts } from "./vault.ts";
import { type Profile, profileOf } from "./write/profiles.ts";

/** A vault as an archive of files. */
export class VaultArchive implements Archive {
  readonly kind = "archive";
  readonly format = "aerovault";
  readonly version = String(FORMAT_MAJOR);
  readonly parts: readonly Part[];
  readonly entries: readonly VaultEntry[];
  readonly warnings: readonly Finding[];
  /** The vault that writers continue from. */
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

  /** In the plaintext lane everyone can make a block that passes. */
  get authentication(): "blocks" | undefined {
    return this.vault.keys.lane === "plain" ? undefined : "blocks";
  }

  get encryption(): "none" | undefined {
    return this.vault.keys.lane === "plain" ? "none" : undefined;
  }

  get profile(): Profile | undefined {
    return profileOf(this.vault.manifest.wrappers.compression.level);
  }

  async entryStorage(): Promise<readonly (EntryStorage | undefined)[]> {
    return measureEntries(this.vault);
  }

  /** Finds an entry by its path; slashes at the ends do not matter. */
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
  /** Position in the manifest. */
  readonly #index: number;
  readonly #vault: Vault;

  constructor(index: number, vault: Vault) {
    this.#index = index;
    this.#vault = vault;
  }

  /** The record in the manifest. */
  get record(): ManifestEntry {
    return this.#vault.manifest.entries.record(this.#index);
  }

  get path(): string {
    return this.#vault.manifest.entries.path(this.#index);
  }

  get type(): Entry["type"] {
    return this.#vault.manifest.entries.isDir(this.#index) ? "directory" : "file";
  }

  /** 0 for a directory, even if the manifest says otherwise. */
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

  /** Chunk ids identify contents in vaults with the same key: copies of a vault, its later states, all plain ones. */
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

/** The room that the files of a vault take in it, and the room that nothing uses. */
export function measureStorage({ manifest, source, header }: Vault): ArchiveStorage {
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
  const { manifestLength, extensionDirectoryLength, extensionPayloadLength } = header.values;
  const held = HEADER_BYTES + storedBytes + manifestLength + extensionDirectoryLength + extensionPayloadLength;
  const gapBytes = Math.max(source.byteLength - held, 0);
  return { chunkCount: manifest.chunks.size, logicalBytes, storedBytes, unusedBytes, gapBytes };
}

/** A loop, because `Array.from` takes four times as long. */
function entriesOf(vault: Vault): readonly VaultEntry[] {
  const entries: VaultEntry[] = [];
  for (let index = 0; index < vault.manifest.entries.length; index++) entries.push(new VaultEntry(index, vault));
  return entries;
}

/** The container as a vault of this format; any other container is refused. */
export function vaultArchive(container: Container): VaultArchive {
  if (container instanceof VaultArchive) return container;
  const message = `Cannot treat a ${container.format} container as AeroVault`;
  throw new UsageError("usage/aerovault.container", message, { source: container.parts[0]?.label ?? container.format });
}

/** A chunk of a file: `start` counts from the first byte of the file and is negative in a pack. */
interface Span {
  readonly record: ChunkRecord;
  readonly start: number;
}

/** Where the bytes of a file are: only the chunks that hold some of them. */
export type EntryPlan = readonly Span[];

/** What reading an entry needs. */
export interface EntryContext {
  readonly chunks: ReadonlyMap<string, ChunkRecord>;
  readonly store: Pick<ChunkStore, "check">;
  readonly lane: Lane;
}

/**
 * The chunks that cover an entry, without reading anything. Chunks after the end of the file are ignored, no matter how
 * many are listed. Refuses an entry whose chunks are missing or too short; `at` is the place of the manifest.
 */
export function planEntry(entry: ManifestEntry, { chunks, store, lane }: EntryContext, at: Location): EntryPlan {
  const spans: Span[] = [];
  const skip = entry.packOffset ?? 0;
  let position = -skip;
  for (const id of entry.chunks) {
    if (position >= entry.size) break;
    const record = chunks.get(id);
    if (record === undefined) throw chunkFault(entry, `the vault must have chunk ${printable(id)}, and has not`, at);
    store.check(record);
    if (position + record.plaintextLen > 0) spans.push({ record, start: position });
    position += record.plaintextLen;
  }
  if (lane === "plain" && entry.packOffset === undefined && position > entry.size) {
    // Nothing protects the size here, but a file that owns its chunks is as long as they are together.
    const message = `Cannot read "${printable(entry.path)}" of the vault: its size must be that of its chunks, ${position} or more, found ${entry.size}`;
    throw new FormatError("format/aerovault.size", message, {
      ...at,
      path: `entries["${printable(entry.path)}"].size`,
    });
  }
  if (position >= entry.size || entry.size === 0) return spans;
  const held = position + skip;
  throw chunkFault(entry, `its chunks must hold ${entry.size} bytes from ${skip} on, found ${held} in all`, at);
}

/** The bytes of one file of a vault. Reads touch only the blocks that they need; the vault owns file and keys. */
export class EntrySource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #plan: EntryPlan;
  readonly #store: ChunkStore;
  readonly #guard: ReadGuard;

  constructor(entry: ManifestEntry, plan: EntryPlan, store: ChunkStore) {
    this.label = `${store.at.source}::${entry.path}`;
    this.byteLength = entry.size;
    this.#plan = plan;
    this.#store = store;
    this.#guard = new ReadGuard(this.label, this.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const { into, signal } = options;
    const spans = this.#spansOf(offset, byteLength);
    const [only] = spans;
    let target = into;
    let done = 0;
    for await (const piece of this.#pieces(spans, offset, byteLength, signal)) {
      if (spans.length === 1 && only !== undefined && into === undefined) return piece;
      target ??= allocateFor(byteLength, this.label);
      target.set(piece, done);
      done += piece.byteLength;
    }
    this.#guard.checkOpen();
    return target ?? new Uint8Array(0);
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    const spans = this.#spansOf(offset, byteLength);
    for await (const piece of this.#pieces(spans, offset, byteLength, options.signal)) {
      this.#guard.checkOpen();
      yield piece;
      options.signal?.throwIfAborted();
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    return Promise.resolve();
  }

  async *#pieces(
    spans: readonly Span[],
    offset: number,
    byteLength: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Bytes> {
    const end = offset + byteLength;
    const records = spans.map(({ record }) => record);
    let i = 0;
    for await (const chunk of this.#store.read(records, signal)) {
      const { start } = spans[i++] as Span;
      yield chunk.subarray(Math.max(offset - start, 0), Math.min(end - start, chunk.byteLength));
    }
  }

  /** The spans that share a byte with the range. A binary search, because a file may have a hundred thousand. */
  #spansOf(offset: number, byteLength: number): readonly Span[] {
    if (byteLength === 0) return [];
    const plan = this.#plan;
    let low = 0;
    let high = plan.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const { start, record } = plan[middle] as Span;
      if (start + record.plaintextLen > offset) high = middle;
      else low = middle + 1;
    }
    let end = low;
    while (end < plan.length && (plan[end] as Span).start < offset + byteLength) end++;
    return plan.slice(low, end);
  }
}

function chunkFault(entry: ManifestEntry, problem: string, at: Location): FormatError {
  const message = `Cannot read "${printable(entry.path)}" of the vault: ${problem}`;
  return new FormatError("format/aerovault.chunk", message, { ...at, path: `entries["${printable(entry.path)}"]` });
}
