import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { GearChunker, GearRule } from "../../../primitives/chunking/gear.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { deriveFromMaster, type VaultKeys } from "../keys.ts";
import type { ChunkBounds } from "../manifest/records.ts";
import { comparePaths } from "../paths.ts";

/** "keyed" cuts by a secret table and finds its cuts again after an edit; "reference" cuts as the reference does. */
export type ChunkerName = "keyed" | "reference";
export const CHUNKERS: readonly ChunkerName[] = ["keyed", "reference"];

/** Vaults with another version of this label never deduplicate with this one: docs/vault.md has a known answer. */
const KEYED_TABLE_INFO = "tare gear table v1";
const REFERENCE_TABLE_LABEL = encodeUtf8("AeroVault v3 gear-cdc table");
const TABLE_ENTRIES = 256;

/** The rule that cuts a vault's files. Chunk lengths of a keyed vault reveal nothing about known files. */
export async function gearRule(
  engine: Engine,
  chunker: ChunkerName,
  { keys, bounds }: { readonly keys: VaultKeys; readonly bounds: ChunkBounds },
): Promise<GearRule> {
  const { min, avg, max } = bounds;
  const lengths = { minBytes: min, averageBytes: avg, maxBytes: max };
  if (chunker === "reference") return { table: await referenceTable(engine), step: "rotate", ...lengths };
  return { table: await keyedTable(engine, keys), step: "shift", ...lengths };
}

/** 256 numbers from the vault's own key (docs/vault.md#where-files-are-cut). */
export async function keyedTable(engine: Engine, keys: VaultKeys): Promise<BigUint64Array<ArrayBuffer>> {
  const bytes = await deriveFromMaster(engine, keys, KEYED_TABLE_INFO, TABLE_ENTRIES * 8);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const table = BigUint64Array.from({ length: TABLE_ENTRIES }, (_, i) => view.getBigUint64(8 * i, true));
  bytes.fill(0);
  return table;
}

/** 256 public numbers: the first bytes of BLAKE3 over a label and the byte's value (docs/formats/aerovault.md#cuts). */
export async function referenceTable(engine: Engine): Promise<BigUint64Array<ArrayBuffer>> {
  const table = new BigUint64Array(TABLE_ENTRIES);
  for (let i = 0; i < TABLE_ENTRIES; i++) {
    const digest = await engine.digest("blake3", concatBytes([REFERENCE_TABLE_LABEL, Uint8Array.of(i)]));
    table[i] = new DataView(digest.buffer, digest.byteOffset).getBigUint64(0, true);
  }
  return table;
}

/**
 * Cuts one file, piece by piece, into chunks. Every region begins a new chunk, and inside a region the content decides.
 * Without regions the whole stream is one region, of any length.
 */
export class ChunkCutter {
  readonly #gear: GearChunker;
  readonly #regions: readonly Extent[];
  #region = 0;
  /** Bytes of the current region so far. */
  #inRegion = 0;
  /** Bytes of the current chunk so far. */
  #inChunk = 0;

  constructor(gear: GearChunker, regions: readonly Extent[] = []) {
    this.#gear = gear;
    this.#regions = regions;
  }

  /** Takes the next piece; returns the lengths of the chunks that end in it. */
  push(piece: Bytes): number[] {
    const lengths: number[] = [];
    let rest = piece;
    while (rest.byteLength > 0) {
      const left = (this.#regions[this.#region]?.byteLength ?? Number.POSITIVE_INFINITY) - this.#inRegion;
      const part = rest.byteLength > left ? rest.subarray(0, left) : rest;
      this.#take(part, lengths);
      if (part.byteLength === left) this.#endRegion(lengths);
      rest = rest.subarray(part.byteLength);
    }
    return lengths;
  }

  /** Ends the stream; returns the length of the unfinished chunk, if there is one. */
  end(): number[] {
    const lengths: number[] = [];
    this.#endRegion(lengths);
    this.#region = 0;
    return lengths;
  }

  #take(part: Bytes, lengths: number[]): void {
    let start = 0;
    for (const end of this.#gear.push(part)) {
      lengths.push(this.#inChunk + end - start);
      this.#inChunk = 0;
      start = end;
    }
    this.#inChunk += part.byteLength - start;
    this.#inRegion += part.byteLength;
  }

  #endRegion(lengths: number[]): void {
    const last = this.#gear.end();
    if (last > 0) lengths.push(last);
    this.#region++;
    this.#inRegion = 0;
    this.#inChunk = 0;
  }
}

/**
 * Where chunks must begin, for files with a known structure (docs/vault.md#where-files-are-cut): at the start and at
 * the end of every tensor, so that the same weights give the same chunks in every format. The bytes between two tensors
 * form a separate region.
 */

/** Tensors of at least this size have their own chunks; smaller neighbours share chunks. */
const OWN_CHUNK_BYTES = 16 << 10;

/** Regions that are cut separately: in order, without gaps, from 0 to `byteLength`. One region without tensors. */
export function planRegions(byteLength: number, tensors: readonly Extent[]): readonly Extent[] {
  const regions: Extent[] = [];
  let position = 0;
  const close = (end: number): void => {
    if (end > position) regions.push({ offset: position, byteLength: end - position });
    position = Math.max(position, end);
  };
  for (const run of joinSmall(mergeOverlaps(byteLength, tensors))) {
    close(run.offset);
    close(run.offset + run.byteLength);
  }
  close(byteLength);
  return regions;
}

/** The extents inside the file, sorted by offset and never empty; extents that share bytes are merged. */
function mergeOverlaps(byteLength: number, extents: readonly Extent[]): Extent[] {
  const sorted = extents
    .filter((extent) => extent.byteLength > 0 && extent.offset >= 0 && extent.offset <= byteLength - extent.byteLength)
    .sort((a, b) => a.offset - b.offset);
  const merged: Extent[] = [];
  for (const extent of sorted) {
    const last = merged.at(-1);
    if (last === undefined || extent.offset >= last.offset + last.byteLength) {
      merged.push(extent);
      continue;
    }
    const end = Math.max(last.offset + last.byteLength, extent.offset + extent.byteLength);
    merged[merged.length - 1] = { offset: last.offset, byteLength: end - last.offset };
  }
  return merged;
}

/** Merges runs of small tensors, with the padding between them. */
function joinSmall(extents: readonly Extent[]): Extent[] {
  const runs: Extent[] = [];
  let group: { offset: number; end: number } | undefined;
  const flush = (): void => {
    if (group !== undefined) runs.push({ offset: group.offset, byteLength: group.end - group.offset });
    group = undefined;
  };
  for (const extent of extents) {
    if (extent.byteLength >= OWN_CHUNK_BYTES) {
      flush();
      runs.push(extent);
    } else if (group === undefined || extent.offset - group.end >= OWN_CHUNK_BYTES) {
      flush();
      group = { offset: extent.offset, end: extent.offset + extent.byteLength };
    } else {
      group.end = extent.offset + extent.byteLength;
    }
  }
  flush();
  return runs;
}

/** Smaller files share packs, whatever the chunker's minimum is (docs/formats/aerovault.md#packs). */
export const SMALL_FILE_BYTES = 256 << 10;
/** A pack is flushed when it reaches this size (docs/formats/aerovault.md#packs). */
export const PACK_BYTES = 4 << 20;

/** A file that goes into a pack. */
export interface PackMember {
  readonly path: string;
  readonly size: number;
}

/** Files whose bytes follow one another, without any framing. */
export interface Pack<M extends PackMember> {
  readonly members: readonly M[];
  readonly byteLength: number;
}

/** True for files that go into packs. */
export function isSmall(size: number): boolean {
  return size < SMALL_FILE_BYTES;
}

/** Small files sorted by path; a pack ends after the file that fills it (docs/formats/aerovault.md#packs). */
export function planPacks<M extends PackMember>(files: readonly M[]): Pack<M>[] {
  const packs: Pack<M>[] = [];
  let members: M[] = [];
  let byteLength = 0;
  for (const file of [...files].sort((a, b) => comparePaths(a.path, b.path))) {
    members.push(file);
    byteLength += file.size;
    if (byteLength < PACK_BYTES) continue;
    packs.push({ members, byteLength });
    members = [];
    byteLength = 0;
  }
  if (members.length > 0) packs.push({ members, byteLength });
  return packs;
}

/** Where a packed file is: which chunks of its pack, and its start in the first of them. */
export interface Cover {
  /** Index of the first covering chunk; 0 for an empty file, which has none. */
  readonly first: number;
  readonly count: number;
  readonly packOffset: number;
}

/** The chunks that cover each run of a pack. `sizes` and `chunkLengths` have the same sum. */
export function coverSpans(sizes: readonly number[], chunkLengths: readonly number[]): Cover[] {
  let chunk = 0;
  let chunkStart = 0;
  let start = 0;
  return sizes.map((size) => {
    if (size === 0) return { first: 0, count: 0, packOffset: 0 };
    while (chunkStart + (chunkLengths[chunk] as number) <= start) chunkStart += chunkLengths[chunk++] as number;
    const first = chunk;
    const packOffset = start - chunkStart;
    const end = start + size;
    let last = chunk;
    let lastEnd = chunkStart + (chunkLengths[chunk] as number);
    while (lastEnd < end) lastEnd += chunkLengths[++last] as number;
    start = end;
    return { first, count: last - first + 1, packOffset };
  });
}
