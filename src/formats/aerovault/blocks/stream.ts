import { type Bytes, concatBytes, equalBytes } from "../../../base/bytes.ts";
import { IntegrityError } from "../../../base/errors.ts";
import { encodeHex } from "../../../base/text.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { ReadableBytes } from "../../../model/parity/avec.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { encodePrefix } from "../cipher.ts";
import { PREFIX_BYTES } from "../layout.ts";
import type { ChunkRecord } from "../manifest/records.ts";
import { blockExtent } from "./check.ts";
import { planBlockBatches } from "./store.ts";

/** Reads bytes of the vault's file. */
export type ReadFile = (offset: number, byteLength: number) => Promise<Bytes>;

/** A run of the stream, and its place in the file. */
export interface StreamRun extends Extent {
  /** Offset in the stream. */
  readonly at: number;
}

/**
 * The stored blocks with their prefixes, in the order of the file: what parity protects
 * (docs/formats/aerovault.md#parity).
 */
export class BlockStream implements ReadableBytes {
  readonly byteLength: number;
  /** In the order of the file. */
  readonly records: readonly ChunkRecord[];
  /** Adjacent blocks are one run. */
  readonly #runs: readonly StreamRun[];
  readonly #read: ReadFile;

  constructor(records: Iterable<ChunkRecord>, read: ReadFile) {
    this.records = [...records].sort((a, b) => a.dataOffset - b.dataOffset);
    const runs: StreamRun[] = [];
    let at = 0;
    for (const { offset, byteLength } of this.records.map(blockExtent)) {
      const last = runs.at(-1);
      if (last !== undefined && last.offset + last.byteLength === offset) {
        runs[runs.length - 1] = { ...last, byteLength: last.byteLength + byteLength };
      } else {
        runs.push({ offset, byteLength, at });
      }
      at += byteLength;
    }
    this.#runs = runs;
    this.#read = read;
    this.byteLength = at;
  }

  /** The same blocks, read from other bytes. */
  over(read: ReadFile): BlockStream {
    return new BlockStream(this.records, read);
  }

  async read(offset: number, byteLength: number): Promise<Bytes> {
    const pieces: Bytes[] = [];
    for (const run of this.runsOf(offset, byteLength)) pieces.push(await this.#read(run.offset, run.byteLength));
    return pieces.length === 1 ? (pieces[0] as Bytes) : concatBytes(pieces);
  }

  /** Where a part of the stream is in the file. */
  runsOf(offset: number, byteLength: number): readonly StreamRun[] {
    const found: StreamRun[] = [];
    const end = offset + byteLength;
    for (let i = this.#findRun(offset), at = offset; at < end; i++) {
      const run = this.#runs[i] as StreamRun;
      const length = Math.min(run.at + run.byteLength, end) - at;
      found.push({ offset: run.offset + at - run.at, byteLength: length, at });
      at += length;
    }
    return found;
  }

  /** The last run that begins at or before `offset`. */
  #findRun(offset: number): number {
    let low = 0;
    let high = this.#runs.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#runs[middle] as StreamRun).at <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** What blocks take in the file, prefixes included. */
export function storedBytes(records: Iterable<ChunkRecord>): number {
  let sum = 0;
  for (const record of records) sum += blockExtent(record).byteLength;
  return sum;
}

/** Why a block is not the one that was stored. The prefix is checked first. */
export type BlockFault = "prefix" | "cipher-hash";

/**
 * Compares a stored block, prefix included, with its record. The manifest authenticates the hash, so this proves the
 * block.
 */
export async function findBlockFault(
  engine: Engine,
  stored: Bytes,
  { blockLen, cipherHash }: ChunkRecord,
): Promise<BlockFault | undefined> {
  if (!equalBytes(stored.subarray(0, PREFIX_BYTES), encodePrefix(blockLen))) return "prefix";
  const hash = encodeHex(await engine.digest("blake3", stored.subarray(PREFIX_BYTES)));
  return hash === cipherHash ? undefined : "cipher-hash";
}

/** Reads stored blocks with few reads, and reports the fault of each. */
export async function* scanBlocks(
  records: Iterable<ChunkRecord>,
  read: ReadFile,
  engine: Engine,
): AsyncGenerator<{ readonly record: ChunkRecord; readonly fault: BlockFault | undefined }> {
  const sorted = [...records].sort((a, b) => a.dataOffset - b.dataOffset);
  for (const batch of planBlockBatches(sorted)) {
    const bytes = await read(batch.offset, batch.byteLength);
    for (const record of batch.records) {
      const { offset, byteLength } = blockExtent(record);
      const stored = bytes.subarray(offset - batch.offset, offset - batch.offset + byteLength);
      yield { record, fault: await findBlockFault(engine, stored, record) };
    }
  }
}

export interface BlockCheck {
  readonly engine: Engine;
  readonly label: string;
  /** The action that a damaged block prevents: "export the parity of the vault". */
  readonly action: string;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** Throws if a stored block does not match its record. */
export async function checkStoredBlocks(
  records: Iterable<ChunkRecord>,
  read: ReadFile,
  check: BlockCheck,
): Promise<void> {
  for await (const { record, fault } of scanBlocks(records, read, check.engine)) {
    check.signal?.throwIfAborted();
    if (fault !== undefined) throw damagedBlock(fault, record, check);
    check.onProgress?.(blockExtent(record).byteLength);
  }
}

/** The error for a damaged block that stops a change. */
export function damagedBlock(
  fault: BlockFault,
  record: ChunkRecord,
  { action, label }: Pick<BlockCheck, "action" | "label">,
): IntegrityError {
  return new IntegrityError(
    `integrity/aerovault.${fault}`,
    `Cannot ${action}: block ${record.blockIndex} is damaged`,
    { source: label, offset: blockExtent(record).offset, path: `chunks["${record.id}"]` },
    { hint: "The vault is unchanged; run tare vault repair first" },
  );
}
