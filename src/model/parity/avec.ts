import { type Bytes, EMPTY_BYTES, equalBytes, readMemory } from "../../base/bytes.ts";
import type { Engine } from "../../primitives/engine.ts";
import { ascii, reserved, struct, u16, u32, u64 } from "../../struct/layout.ts";

/** Limits of the percentage of parity (docs/formats/aerocorrect.md#parity). */
const LEAST_PERCENT = 5;
/** No grid gives longer payloads than this one. */
export const MOST_PARITY_PERCENT = 50;

/** Names of percentages, as for QR codes (docs/formats/aerocorrect.md#parity). */
export const PARITY_LEVELS = { low: 7, medium: 15, quartile: 25, high: 30 } as const;

/** "15%", "15" or the name of a level → percent; undefined for anything else. */
export function parityPercent(text: string): number | undefined {
  const named = new Map<string, number>(Object.entries(PARITY_LEVELS)).get(text);
  if (named !== undefined) return named;
  const percent = /^\d{1,2}%?$/.test(text) ? Number.parseInt(text, 10) : 0;
  return percent >= 5 && percent <= 50 ? percent : undefined;
}

/** Data and parity shards of a group. */
export interface ParityGrid {
  readonly dataShards: number;
  readonly parityShards: number;
}

/** The grid of a percentage (docs/formats/aerocorrect.md#parity). */
export function parityGrid(percent: number): ParityGrid {
  const clamped = clampParity(percent);
  const parityShards = clamped < 10 ? 1 : 2;
  const dataShards = Math.max(2, Math.floor((100 * parityShards + Math.floor(clamped / 2)) / clamped));
  return { dataShards, parityShards };
}

/** The percentage that is recorded. */
export function clampParity(percent: number): number {
  return Math.min(Math.max(percent, LEAST_PERCENT), MOST_PARITY_PERCENT);
}

/** Every grid that some percentage gives, each once. */
export function knownGrids(): readonly ParityGrid[] {
  const grids = new Map<string, ParityGrid>();
  for (let percent = LEAST_PERCENT; percent <= MOST_PARITY_PERCENT; percent++) {
    const grid = parityGrid(percent);
    grids.set(`${grid.dataShards}+${grid.parityShards}`, grid);
  }
  return [...grids.values()];
}

/**
 * AVEC, the parity of one stream of bytes: a head, sixteen bytes of BLAKE3 for each data shard and each parity shard,
 * and the parity shards (docs/formats/aerocorrect.md#parity). Vaults carry it as an extension; sidecars carry it for
 * any file.
 */

/** The head, one line per row of docs/formats/aerocorrect.md#parity. */
export const avecHeader = struct("AVEC header", 32, {
  magic: ascii(0, 4).or("AVEC"),
  version: u16(4).or(2),
  dataShards: u16(6),
  parityShards: u16(8),
  shardLength: u32(10),
  totalLength: u64(14),
  reserved: reserved(22, 10),
});

export const AVEC_HEADER_BYTES = avecHeader.byteLength;
/** Length of a shard's checksum: the first bytes of BLAKE3 over the shard, padded with zeros to its full length. */
export const SHARD_SUM_BYTES = 16;
/** Limits of the shard length that writers choose (docs/formats/aerocorrect.md#parity). */
const LEAST_SHARD_BYTES = 4096;
const MOST_SHARD_BYTES = 1 << 20;
/** The number of elements of GF(2^8). Each shard of a group needs a different one. */
const MOST_SHARDS = 256;

/** Bytes of any origin: a run of a file, or blocks of a vault one after the other. A Source is one. */
export interface ReadableBytes {
  readonly byteLength: number;
  /** `into` is an optional destination of exactly this length: reusing memory costs less than new memory. */
  read(offset: number, byteLength: number, options?: { readonly into?: Bytes }): Promise<Bytes>;
}

/** The layout of a payload, which follows from the grid and the length of the protected data. */
export interface AvecPlan {
  readonly grid: ParityGrid;
  /** Length of the protected data. */
  readonly byteLength: number;
  readonly shardBytes: number;
  /** Data shards that are stored. The last group may lack some; these count as zeros. */
  readonly shardCount: number;
  readonly groupCount: number;
  /** Where the checksums of parity shards begin in the payload. */
  readonly paritySumsAt: number;
  /** Where the parity shards begin in the payload. */
  readonly parityAt: number;
  /** Length of the payload; 0 if nothing is protected. */
  readonly payloadBytes: number;
}

/** The layout of the payload over this many bytes (docs/formats/aerocorrect.md#parity). */
export function planAvec(grid: ParityGrid, byteLength: number): AvecPlan {
  const even = Math.ceil(byteLength / grid.dataShards);
  return planShards(grid, byteLength, Math.min(Math.max(even, LEAST_SHARD_BYTES), MOST_SHARD_BYTES));
}

function planShards(grid: ParityGrid, byteLength: number, shardBytes: number): AvecPlan {
  const shardCount = Math.ceil(byteLength / shardBytes);
  const groupCount = Math.ceil(shardCount / grid.dataShards);
  const parityCount = groupCount * grid.parityShards;
  const paritySumsAt = AVEC_HEADER_BYTES + SHARD_SUM_BYTES * shardCount;
  const parityAt = paritySumsAt + SHARD_SUM_BYTES * parityCount;
  const payloadBytes = byteLength === 0 ? 0 : parityAt + parityCount * shardBytes;
  return { grid, byteLength, shardBytes, shardCount, groupCount, paritySumsAt, parityAt, payloadBytes };
}

/** The head of a plan's payload; empty if nothing is protected. */
export function encodeAvecHeader({ grid, byteLength, shardBytes }: AvecPlan): Bytes {
  if (byteLength === 0) return EMPTY_BYTES;
  return avecHeader.encode({ ...grid, shardLength: shardBytes, totalLength: byteLength });
}

/**
 * The plan that a head states; undefined if the bytes are no head, or state more than any payload holds. Its numbers
 * cannot cause a large allocation: shards are at most a mebibyte, and a group has at most 256 of them.
 */
export function decodeAvecHeader(bytes: Bytes): AvecPlan | undefined {
  if (bytes.byteLength < AVEC_HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  // No file here has a length above 2^53 - 1, and the decoder would refuse it with another error.
  if (view.getUint32(18, true) > 0x1f_ffff) return undefined;
  const { magic, version, dataShards, parityShards, shardLength, totalLength } = avecHeader.decode(bytes, {
    source: "parity",
  });
  if (magic !== "AVEC" || version !== 2 || dataShards === 0 || parityShards === 0) return undefined;
  if (dataShards + parityShards > MOST_SHARDS || shardLength === 0 || shardLength > MOST_SHARD_BYTES) return undefined;
  return totalLength === 0 ? undefined : planShards({ dataShards, parityShards }, totalLength, shardLength);
}

/** A layout of a payload, and whether the payload's own head states it. */
interface FoundPlan {
  readonly plan: AvecPlan;
  readonly head: "sound" | "damaged";
}

/**
 * The possible layouts of a payload over `byteLength` bytes, the likeliest first: the one in its head if it fits the
 * lengths, and every grid that gives these lengths. Empty if this is no payload over that many bytes. `likely` is the
 * grid according to another source. A head that differs from it is damaged, because lengths alone do not always
 * distinguish grids.
 */
export async function findPlans(
  payload: ReadableBytes,
  byteLength: number,
  likely?: ParityGrid | undefined,
): Promise<readonly FoundPlan[]> {
  if (payload.byteLength < AVEC_HEADER_BYTES || byteLength === 0) return [];
  const head = await payload.read(0, AVEC_HEADER_BYTES);
  const stated = decodeAvecHeader(head);
  const grids = likely === undefined ? knownGrids() : [likely, ...knownGrids()];
  const others = grids
    .map((grid) => planAvec(grid, byteLength))
    .filter((plan) => plan.payloadBytes === payload.byteLength)
    .map((plan): FoundPlan => ({ plan, head: "damaged" }));
  if (stated?.byteLength !== byteLength || stated.payloadBytes !== payload.byteLength) return others;
  const isUsual =
    equalBytes(head, encodeAvecHeader(stated)) && planAvec(stated.grid, byteLength).shardBytes === stated.shardBytes;
  const isExpected = likely === undefined || sameGrid(likely, stated.grid);
  if (isUsual && isExpected) {
    return [{ plan: stated, head: "sound" }, ...others.filter(({ plan }) => !sameGrid(plan.grid, stated.grid))];
  }
  const found: FoundPlan = { plan: stated, head: "damaged" };
  return isExpected ? [found, ...others] : [...others, found];
}

function sameGrid(a: ParityGrid, b: ParityGrid): boolean {
  return a.dataShards === b.dataShards && a.parityShards === b.parityShards;
}

/**
 * A run of this many damaged bytes can be healed at any position. A longer one may touch too many shards of a group.
 */
export function longestBurst({ grid, shardBytes }: Pick<AvecPlan, "grid" | "shardBytes">): number {
  return (grid.parityShards - 1) * shardBytes + 1;
}

interface AvecEncoding {
  readonly engine: Engine;
  readonly plan: AvecPlan;
  readonly data: ReadableBytes;
  /**
   * Takes a piece of the payload. Pieces do not overlap and come in any order; each belongs to the caller once handed
   * over.
   */
  write(offset: number, bytes: Bytes): Promise<void>;
  readonly signal?: AbortSignal | undefined;
  /** Called with the bytes of data that were read since the last call. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** Makes the payload of a plan, with one group at a time in memory. Writes nothing if nothing is protected. */
export async function encodeAvec({ engine, plan, data, write, signal, onProgress }: AvecEncoding): Promise<void> {
  const { grid, shardBytes, groupCount, paritySumsAt, parityAt } = plan;
  if (plan.byteLength === 0) return;
  const code = await engine.reedSolomon(grid.dataShards, grid.parityShards);
  const front = new Uint8Array(parityAt);
  front.set(encodeAvecHeader(plan));
  const memory = groupMemory(plan);
  for (let group = 0; group < groupCount; group++) {
    signal?.throwIfAborted();
    const shards = await readDataShards(plan, data, group, memory);
    const parity = Array.from({ length: grid.parityShards }, () => new Uint8Array(shardBytes));
    code.encode(shards, parity);
    const first = group * grid.dataShards;
    front.set(await shardSums(engine, shards), AVEC_HEADER_BYTES + SHARD_SUM_BYTES * first);
    const parityIndex = group * grid.parityShards;
    front.set(await shardSums(engine, parity), paritySumsAt + SHARD_SUM_BYTES * parityIndex);
    for (const [i, shard] of parity.entries()) await write(parityAt + (parityIndex + i) * shardBytes, shard);
    onProgress?.(Math.min(shards.length * shardBytes, plan.byteLength - first * shardBytes));
  }
  await write(0, front);
}

/** The payload in memory, for short data. */
export async function avecPayload(encoding: Omit<AvecEncoding, "write">): Promise<Bytes> {
  const payload = new Uint8Array(encoding.plan.payloadBytes);
  await encodeAvec({ ...encoding, write: async (offset, bytes) => payload.set(bytes, offset) });
  return payload;
}

/** Room for the data shards of one group. */
export function groupMemory({ grid, shardBytes, byteLength }: AvecPlan): Bytes {
  return readMemory(Math.min(grid.dataShards * shardBytes, byteLength));
}

/** Bytes of data in a group; the last one may have fewer than the others. */
export function groupLength({ grid, shardBytes, byteLength }: AvecPlan, group: number): number {
  const groupBytes = grid.dataShards * shardBytes;
  return Math.min(groupBytes, byteLength - group * groupBytes);
}

/** The stored data shards of a group, the very last one padded with zeros. Uses one read, which may use `memory`. */
export async function readDataShards(
  plan: AvecPlan,
  data: ReadableBytes,
  group: number,
  memory: Bytes = groupMemory(plan),
): Promise<Bytes[]> {
  const { grid, shardBytes } = plan;
  const offset = group * grid.dataShards * shardBytes;
  const length = groupLength(plan, group);
  const bytes = await data.read(offset, length, { into: memory.subarray(0, length) });
  const shards: Bytes[] = [];
  for (let at = 0; at < length; at += shardBytes) {
    shards.push(fillUp(bytes.subarray(at, Math.min(at + shardBytes, length)), shardBytes));
  }
  return shards;
}

/** Checksums of shards, concatenated. */
export async function shardSums(engine: Engine, shards: readonly Bytes[]): Promise<Bytes> {
  const sums = new Uint8Array(SHARD_SUM_BYTES * shards.length);
  for (const [i, shard] of shards.entries()) {
    const digest = await engine.digest("blake3", shard);
    sums.set(digest.subarray(0, SHARD_SUM_BYTES), SHARD_SUM_BYTES * i);
  }
  return sums;
}

/** The shard padded with zeros to its full length, if it is shorter. */
export function fillUp(shard: Bytes, byteLength: number): Bytes {
  if (shard.byteLength === byteLength) return shard;
  const filled = new Uint8Array(byteLength);
  filled.set(shard);
  return filled;
}
