import type { Bytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { type Overlay, overlaidSource } from "../../bytes/derived.ts";
import type { Source } from "../../bytes/source.ts";
import { blockExtent } from "../../formats/aerovault/blocks/check.ts";
import { BlockStream, scanBlocks } from "../../formats/aerovault/blocks/stream.ts";
import { gridOf } from "../../formats/aerovault/extensions/rows.ts";
import type { ChunkRecord } from "../../formats/aerovault/manifest/records.ts";
import type { Vault } from "../../formats/aerovault/vault.ts";
import { findPlans, type ReadableBytes } from "../../model/parity/avec.ts";
import { ParityReader } from "../../model/parity/reader.ts";
import type { Engine } from "../../primitives/engine.ts";

/** Parity of a vault's blocks, and where it comes from. */
export interface DataParity {
  readonly origin: "embedded" | "sidecar";
  readonly payload: ReadableBytes;
}

export interface HealContext {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** Stored blocks after all parity was tried. */
export interface HealedBlocks {
  /** The file with every block that could be healed. */
  readonly image: Source;
  /** The bytes to write for that. */
  readonly overlays: readonly Overlay[];
  /** Blocks that were damaged. */
  readonly damaged: readonly ChunkRecord[];
  /** The damaged blocks that could not be healed. */
  readonly lost: readonly ChunkRecord[];
  /** The parity that healed some blocks. */
  readonly origins: readonly DataParity["origin"][];
}

/**
 * Heals stored blocks with every available parity, one after the other, each over the result of the one before. A block
 * counts as healed if it matches its prefix and its hash in the manifest. Parity is never trusted by itself, so stale,
 * empty or wrong parity can only fail to help.
 */
export async function healBlocks(
  vault: Vault,
  image: Source,
  parities: readonly DataParity[],
  context: HealContext,
): Promise<HealedBlocks> {
  const all = [...vault.manifest.chunks.values()];
  const records = all.filter((record) => isPlaced(vault, record));
  const damaged = await findDamaged(records, image, context);
  let state: HealedBlocks = { image, overlays: [], damaged, lost: damaged, origins: [] };
  // Parity covers all blocks: if the manifest places one outside of the data, there is no stream to heal.
  for (const parity of records.length === all.length ? parities : []) {
    if (state.lost.length === 0) break;
    state = (await tryParity(vault, records, state, parity, context)) ?? state;
  }
  const unplaced = all.filter((record) => !isPlaced(vault, record));
  return { ...state, damaged: [...state.damaged, ...unplaced], lost: [...state.lost, ...unplaced] };
}

function isPlaced({ chunks }: Vault, record: ChunkRecord): boolean {
  try {
    chunks.check(record);
    return true;
  } catch (error) {
    if (isTareError(error)) return false;
    throw error;
  }
}

async function findDamaged(
  records: Iterable<ChunkRecord>,
  image: Source,
  { engine, signal, onProgress }: HealContext,
): Promise<ChunkRecord[]> {
  const damaged: ChunkRecord[] = [];
  for await (const { record, fault } of scanBlocks(records, readerOf(image), engine)) {
    signal?.throwIfAborted();
    if (fault !== undefined) damaged.push(record);
    onProgress?.(blockExtent(record).byteLength);
  }
  return damaged;
}

/** Undefined if this parity does not help. */
async function tryParity(
  { manifest }: Vault,
  records: readonly ChunkRecord[],
  state: HealedBlocks,
  { origin, payload }: DataParity,
  context: HealContext,
): Promise<HealedBlocks | undefined> {
  const data = new BlockStream(records, readerOf(state.image));
  const { engine, signal } = context;
  for (const { plan } of await findPlans(payload, data.byteLength, gridOf(manifest))) {
    const isSuspect = suspects(data, state.lost, plan.shardBytes);
    const reader = new ParityReader({ engine, plan, data, payload, isSuspect });
    await reader.examine({ signal });
    const overlays = reader.healable().flatMap((shard) => shardOverlays(data, reader, shard));
    if (overlays.length === 0) continue;
    const image = overlaidSource(state.image, state.image.byteLength, overlays);
    // Blocks that share a shard with a damaged one are overwritten too, and checked again like it.
    const touched = touchedBlocks(data.records, overlays);
    const lost = await findDamaged(new Set([...touched, ...state.lost]), image, { engine, signal });
    if (lost.length >= state.lost.length) continue;
    return { ...state, image, overlays: [...state.overlays, ...overlays], lost, origins: [...state.origins, origin] };
  }
  return undefined;
}

/** Shards that hold a part of a damaged block; the blocks prove all others. */
function suspects(data: BlockStream, lost: readonly ChunkRecord[], shardBytes: number): (shard: number) => boolean {
  const ids = new Set(lost.map(({ id }) => id));
  const shards = new Set<number>();
  let at = 0;
  for (const record of data.records) {
    const end = at + blockExtent(record).byteLength;
    if (ids.has(record.id)) {
      for (let shard = Math.floor(at / shardBytes); shard * shardBytes < end; shard++) shards.add(shard);
    }
    at = end;
  }
  return (shard) => shards.has(shard);
}

/** The overlays that put a shard's bytes to their places in the file. */
function shardOverlays(
  data: BlockStream,
  reader: ParityReader,
  shard: { readonly offset: number; readonly byteLength: number },
): Overlay[] {
  return data.runsOf(shard.offset, shard.byteLength).map(({ offset, byteLength, at }) => ({
    offset,
    byteLength,
    read: (start, length) => reader.read(at + start, length),
  }));
}

/** Blocks that share bytes with an overlay; both lists are in the order of the file. */
function touchedBlocks(records: readonly ChunkRecord[], overlays: readonly Overlay[]): ChunkRecord[] {
  const touched: ChunkRecord[] = [];
  let next = 0;
  for (const record of records) {
    const { offset, byteLength } = blockExtent(record);
    const isBefore = (one: Overlay | undefined): boolean => one !== undefined && one.offset + one.byteLength <= offset;
    while (isBefore(overlays[next])) next++;
    const overlay = overlays[next];
    if (overlay !== undefined && overlay.offset < offset + byteLength) touched.push(record);
  }
  return touched;
}

function readerOf(source: Source): (offset: number, byteLength: number) => Promise<Bytes> {
  return (offset, byteLength) => source.read(offset, byteLength);
}
