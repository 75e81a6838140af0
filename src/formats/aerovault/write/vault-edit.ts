import type { Bytes } from "../../../base/bytes.ts";
import { blockExtent } from "../block-check.ts";
import { damagedBlock, findBlockFault } from "../block-stream.ts";
import { entryList } from "../entry-list.ts";
import { NO_EXTRA_KEYS } from "../field-reader.ts";
import type { VaultCipher } from "../framing.ts";
import type { KeySlots } from "../keys.ts";
import { HEADER_BYTES, PREFIX_BYTES } from "../layout.ts";
import type { ChunkRecord, Manifest } from "../manifest.ts";
import type { SealedBlock, StoredBlock } from "./block-sealer.ts";
import type { VaultDraft } from "./draft.ts";
import { EntryTree } from "./entry-tree.ts";
import { type SealedVault, sealVault } from "./seal.ts";
import type { SealOutput } from "./seal-job.ts";
import { type RoomPolicy, SpacePlan } from "./space.ts";
import type { EditHost, VaultState } from "./vault-state.ts";

/** What a copy of blocks reads at once. */
const CARRY_BYTES = 8 << 20;

/**
 * "update" leaves stored blocks where they are and writes beside them; "rewrite" copies them into an empty draft, one
 * behind the other, checking each, so that nothing unused is left.
 */
export type EditLayout = "update" | "rewrite";

export interface EditParts {
  readonly state: VaultState;
  readonly draft: VaultDraft;
  readonly cipher: VaultCipher;
  readonly host: EditHost;
  readonly layout: EditLayout;
  /** "tail" leaves gaps alone: a change that is not completed then leaves every byte of the vault as it was. */
  readonly room?: RoomPolicy | undefined;
}

/**
 * One change of a vault, from its opening to its seal. Nothing of it can be seen before `seal`, and nothing of it remains
 * where `seal` is not reached and the draft is aborted.
 */
export class VaultEdit {
  readonly tree: EntryTree;
  /** The time of this change. */
  readonly now: string;
  readonly #parts: EditParts;
  readonly #records: Map<string, ChunkRecord>;
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

  /** Bytes that the manifest takes as it was opened. */
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

  /** First byte behind everything that was written so far, by whatever thread. */
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

  /** Bytes of the draft, once what is being written has arrived there. */
  async read(offset: number, byteLength: number): Promise<Bytes> {
    await Promise.all(this.#writes);
    if (this.#failure !== undefined) throw this.#failure;
    return this.#parts.draft.read(offset, byteLength);
  }

  /** The block index behind all that are stored. */
  get nextIndex(): number {
    return this.#nextIndex;
  }

  /** The first of so many block indices that nobody else gets; gaps are normal (dossier 3.3). */
  reserveIndices(count: number): number {
    const first = this.#nextIndex;
    this.#nextIndex += count;
    return first;
  }

  /** Stores a block whose chunk the vault does not have. Resolves once few enough writes are under way. */
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
    // Two blocks may wait for the disk: memory stays bounded by the longest of them.
    while (this.#writes.size > 2) await Promise.race(this.#writes);
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Where other threads write blocks themselves; undefined where they cannot. The stored blocks must lie in place. */
  get output(): SealOutput | undefined {
    const { descriptor, label, expected = [] } = this.#parts.draft;
    const tail = this.#space.sharedTail;
    if (descriptor === undefined || tail === undefined || this.#carried === "not yet") return undefined;
    return { descriptor, tail, label, expected };
  }

  /** Takes over a block that another thread wrote at `offset`. */
  adopt(block: SealedBlock, offset: number): void {
    this.#record(block, offset, PREFIX_BYTES + block.blockLen);
  }

  #record(block: SealedBlock, offset: number, byteLength: number): void {
    this.#records.set(block.id, { ...block, dataOffset: offset - HEADER_BYTES, extra: NO_EXTRA_KEYS });
    this.#storedBytes += byteLength;
    this.#storedBlocks++;
    this.#nextIndex = Math.max(this.#nextIndex, block.blockIndex + 1);
  }

  /** Forgets records that no entry refers to: their room is free for the next change. How many bytes that is. */
  dropUnreferenced(): number {
    const used = this.tree.referenced();
    let bytes = 0;
    for (const [id, record] of this.#records) {
      if (used.has(id)) continue;
      bytes += blockExtent(record).byteLength;
      this.#records.delete(id);
    }
    return bytes;
  }

  /** Ends the change: what it wrote becomes the vault. Other key slots are those of another password. */
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

  /** Copies stored blocks, in the order of their indices as the reference does, and checks that they are what they were. */
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
    }
  }

  /** A damaged block must not become part of a new file as if nothing had happened. */
  async #checkBlock(record: ChunkRecord, stored: Uint8Array<ArrayBuffer>): Promise<void> {
    const { host, state } = this.#parts;
    const fault = await findBlockFault(host.engine, stored, record);
    if (fault !== undefined) throw damagedBlock(fault, record, { action: "copy the vault", label: state.label });
  }
}

interface Run {
  readonly offset: number;
  readonly byteLength: number;
  /** Index of the first record that is not part of it. */
  readonly next: number;
}

/** Records that stand one behind the other in the file, as many as are read at once. */
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
