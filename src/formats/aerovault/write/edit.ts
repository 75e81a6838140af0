import type { Bytes } from "../../../base/bytes.ts";
import { blockExtent } from "../blocks/check.ts";
import { damagedBlock, findBlockFault } from "../blocks/stream.ts";
import type { VaultCipher } from "../cipher.ts";
import type { KeySlots } from "../keys.ts";
import { HEADER_BYTES, PREFIX_BYTES } from "../layout.ts";
import { NO_EXTRA_KEYS } from "../manifest/field-reader.ts";
import type { ChunkRecord, Manifest } from "../manifest/records.ts";
import { entryList } from "../manifest/records.ts";
import { EntryTree, type Savepoint } from "./entry-tree.ts";
import { type RoomPolicy, SpacePlan } from "./free-space.ts";
import type { SealedBlock, StoredBlock } from "./seal/block-sealer.ts";
import { type SealedVault, sealVault } from "./seal/seal.ts";
import type { SealOutput } from "./seal/worker.ts";
import type { EditHost, VaultDraft, VaultState } from "./state.ts";

/** Bytes that a copy of blocks reads at once. */
const CARRY_BYTES = 8 << 20;

/**
 * "update" leaves stored blocks in place and writes beside them. "rewrite" copies them into an empty draft without gaps
 * and checks each one, so that no unused bytes are left.
 */
export type EditLayout = "update" | "rewrite";

export interface EditParts {
  readonly state: VaultState;
  readonly draft: VaultDraft;
  readonly cipher: VaultCipher;
  readonly host: EditHost;
  readonly layout: EditLayout;
  /** "tail" writes nothing into gaps: an incomplete change then leaves every byte of the vault as it was. */
  readonly room?: RoomPolicy | undefined;
}

/**
 * One change of a vault, from its opening to its seal. It is not visible before `seal`, and leaves nothing if the draft
 * is aborted before `seal`.
 */
export class VaultEdit {
  readonly tree: EntryTree;
  /** The time of this change. */
  readonly now: string;
  readonly #parts: EditParts;
  readonly #records: Map<string, ChunkRecord>;
  /** Records that were dropped since the first open savepoint. */
  readonly #dropped: ChunkRecord[] = [];
  #savepoints = 0;
  readonly #space: SpacePlan;
  readonly #writes = new Set<Promise<void>>();
  #carried: "not yet" | "done";
  #nextIndex: number;
  #storedBytes = 0;
  #storedBlocks = 0;
  #failure: unknown;

  constructor(parts: EditParts) {
    const { state, layout, host } = parts;
    this.#parts = parts;
    this.now = host.now();
    this.tree = new EntryTree(state.manifest.entries.records(), state.label);
    this.#records = new Map(state.manifest.chunks);
    const { manifest, directory, payload } = state.sections;
    this.#space = new SpacePlan(
      layout === "rewrite"
        ? { records: [], sections: [] }
        : { records: state.manifest.chunks.values(), sections: [manifest, directory, payload] },
      parts.room,
    );
    this.#carried = layout === "rewrite" ? "not yet" : "done";
    let last = -1;
    for (const { blockIndex } of this.#records.values()) last = Math.max(last, blockIndex);
    this.#nextIndex = last + 1;
  }

  get manifest(): Manifest {
    return this.#parts.state.manifest;
  }

  /** Length of the manifest when the vault was opened. */
  get manifestBytes(): number {
    return this.#parts.state.sections.manifest.byteLength;
  }

  /** Bytes of blocks that this change stored, prefixes included. */
  get storedBytes(): number {
    return this.#storedBytes;
  }

  get storedBlocks(): number {
    return this.#storedBlocks;
  }

  /** The first byte after everything that any thread has written so far. */
  get end(): number {
    return this.#space.end;
  }

  has(id: string): boolean {
    return this.#records.has(id);
  }

  /** Every chunk id that is stored now. */
  ids(): Iterable<string> {
    return this.#records.keys();
  }

  /** Every chunk that is stored now. */
  get chunks(): ReadonlyMap<string, ChunkRecord> {
    return this.#records;
  }

  /** Bytes of the draft, after pending writes have ended. */
  async read(offset: number, byteLength: number): Promise<Bytes> {
    await Promise.all(this.#writes);
    if (this.#failure !== undefined) throw this.#failure;
    return this.#parts.draft.read(offset, byteLength);
  }

  /** The block index after all stored ones. */
  get nextIndex(): number {
    return this.#nextIndex;
  }

  /** The first of this many new block indices; gaps are normal (docs/formats/aerovault.md#writing). */
  reserveIndices(count: number): number {
    const first = this.#nextIndex;
    this.#nextIndex += count;
    return first;
  }

  /** Stores a block whose chunk the vault does not have. Resolves once few enough writes are pending. */
  async store({ block, stored }: StoredBlock): Promise<void> {
    if (this.#carried === "not yet") await this.#carry();
    const offset = this.#space.placeBlock(stored.byteLength);
    this.#record(block, offset, stored.byteLength);
    const write = this.#parts.draft
      .write(offset, stored)
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => this.#writes.delete(write));
    this.#writes.add(write);
    // At most two blocks wait for the disk, so that their length bounds the memory.
    while (this.#writes.size > 2) await Promise.race(this.#writes);
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Where other threads can write blocks themselves; undefined if they cannot. The stored blocks must be in place. */
  get output(): SealOutput | undefined {
    const { descriptor, label, expected = [] } = this.#parts.draft;
    const tail = this.#space.sharedTail;
    if (descriptor === undefined || tail === undefined || this.#carried === "not yet") return undefined;
    return { descriptor, tail, label, expected };
  }

  /** Records a block that another thread wrote at `offset`. */
  adopt(block: SealedBlock, offset: number): void {
    this.#record(block, offset, PREFIX_BYTES + block.blockLen);
  }

  #record(block: SealedBlock, offset: number, byteLength: number): void {
    this.#records.set(block.id, { ...block, dataOffset: offset - HEADER_BYTES, extra: NO_EXTRA_KEYS });
    this.#storedBytes += byteLength;
    this.#storedBlocks++;
    this.#nextIndex = Math.max(this.#nextIndex, block.blockIndex + 1);
  }

  /** Drops records that no entry refers to, so that the next change can use their room. Returns the number of bytes. */
  dropUnreferenced(): number {
    const used = this.tree.referenced();
    let bytes = 0;
    for (const [id, record] of this.#records) {
      if (used.has(id)) continue;
      bytes += blockExtent(record).byteLength;
      if (this.#savepoints > 0) this.#dropped.push(record);
      this.#records.delete(id);
    }
    return bytes;
  }

  /**
   * For a part of a change that may be dropped: entries, and chunks that it leaves unused, come back. Blocks that were
   * stored meanwhile stay until the seal, which leaves out what no entry uses.
   */
  savepoint(): Savepoint {
    const tree = this.tree.savepoint();
    const start = this.#dropped.length;
    this.#savepoints++;
    const end = (): void => {
      if (--this.#savepoints === 0) this.#dropped.length = 0;
    };
    return {
      restore: () => {
        tree.restore();
        for (const record of this.#dropped.splice(start).reverse()) this.#records.set(record.id, record);
        end();
      },
      keep: () => {
        tree.keep();
        end();
      },
    };
  }

  /** Ends the change: its writes become the vault. Other key slots belong to another password. */
  async seal(slots: KeySlots = this.#parts.state.slots): Promise<SealedVault> {
    if (this.#carried === "not yet") await this.#carry();
    await Promise.all(this.#writes);
    if (this.#failure !== undefined) throw this.#failure;
    const { host, state, cipher, draft } = this.#parts;
    if (host.manner !== "reference") this.dropUnreferenced();
    for (const record of this.#records.values()) this.#space.keepBlock(record);
    const { generation } = state.manifest;
    const manifest: Manifest = {
      ...state.manifest,
      modified: this.now,
      entries: entryList(this.tree.sorted()),
      chunks: this.#records,
      generation: host.manner === "reference" ? generation : (generation ?? 0) + 1,
    };
    return sealVault({ state, slots, cipher, host, draft, space: this.#space, manifest });
  }

  /** Copies stored blocks, in the order of their indices as the reference does, and checks that they are unchanged. */
  async #carry(): Promise<void> {
    this.#carried = "done";
    const { state, draft, host } = this.#parts;
    const sorted = [...this.#records.values()].sort((a, b) => a.blockIndex - b.blockIndex);
    for (let i = 0; i < sorted.length; ) {
      host.signal?.throwIfAborted();
      const run = nextRun(sorted, i);
      const bytes = await state.read(run.offset, run.byteLength);
      const target = this.#space.placeBlock(run.byteLength);
      for (; i < run.next; i++) {
        const record = sorted[i] as ChunkRecord;
        const at = blockExtent(record).offset - run.offset;
        await this.#checkBlock(record, bytes.subarray(at, at + PREFIX_BYTES + record.blockLen));
        this.#records.set(record.id, { ...record, dataOffset: target + at - HEADER_BYTES });
      }
      await draft.write(target, bytes);
      host.onProgress?.(bytes.byteLength);
    }
  }

  /** A damaged block must not silently become part of a new file. */
  async #checkBlock(record: ChunkRecord, stored: Uint8Array<ArrayBuffer>): Promise<void> {
    const { host, state } = this.#parts;
    const fault = await findBlockFault(host.engine, stored, record);
    if (fault !== undefined) throw damagedBlock(fault, record, { action: "copy the vault", label: state.label });
  }
}

interface Run {
  readonly offset: number;
  readonly byteLength: number;
  /** Index of the first record after the run. */
  readonly next: number;
}

/** Records that are adjacent in the file, as many as one read may hold. */
function nextRun(records: readonly ChunkRecord[], first: number): Run {
  const start = blockExtent(records[first] as ChunkRecord);
  let end = start.offset + start.byteLength;
  let next = first + 1;
  for (; next < records.length; next++) {
    const extent = blockExtent(records[next] as ChunkRecord);
    if (extent.offset !== end || end + extent.byteLength - start.offset > CARRY_BYTES) break;
    end += extent.byteLength;
  }
  return { offset: start.offset, byteLength: end - start.offset, next };
}
