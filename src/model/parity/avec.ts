import { type Bytes, EMPTY_BYTES, equalBytes, readMemory } from "../../base/bytes.ts";
import type { Engine } from "../../primitives/engine.ts";
import { ascii, reserved, struct, u16, u32, u64 } from "../../struct/layout.ts";

/** Percentages between which parity can be chosen (dossier 5.2). */
const LEAST_PERCENT = 5;
const MOST_PERCENT = 50;

/** Names of percentages, as for QR codes (dossier 5.2). */
export const PARITY_LEVELS = { low: 7, medium: 15, quartile: 25, high: 30 } as const;

/** Data and parity shards of a group. */
export interface ParityGrid {
  readonly dataShards: number;
  readonly parityShards: number;
}

/** The grid of a percentage (dossier 5.2). */
export function parityGrid(percent: number): ParityGrid {
  const clamped = clampParity(percent);
  const parityShards = clamped < 10 ? 1 : 2;
  const dataShards = Math.max(2, Math.floor((100 * parityShards + Math.floor(clamped / 2)) / clamped));
  return { dataShards, parityShards };
}

/** What is recorded for a percentage. */
export function clampParity(percent: number): number {
  return Math.min(Math.max(percent, LEAST_PERCENT), MOST_PERCENT);
}

/** Every grid that a percentage can have, each once. */
export function knownGrids(): readonly ParityGrid[] {
  const grids = new Map<string, ParityGrid>();
  for (let percent = LEAST_PERCENT; percent <= MOST_PERCENT; percent++) {
    const grid = parityGrid(percent);
    grids.set(`${grid.dataShards}+${grid.parityShards}`, grid);
  }
  return [...grids.values()];
}

/**
 * AVEC, the parity of one stream of bytes: a head, sixteen bytes of BLAKE3 for each data shard and each parity shard, and
 * the parity shards (docs/formats/aerocorrect.md#parity). Vaults carry it as an extension, sidecars for any file.
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
/** First bytes of BLAKE3 over a shard that is filled up with zeros. */
export const SHARD_SUM_BYTES = 16;
/** Lengths between which writers choose that of shards (dossier 5.3). */
const LEAST_SHARD_BYTES = 4096;
const MOST_SHARD_BYTES = 1 << 20;
/** GF(2^8) has so many elements, and each shard of a group needs one of its own. */
const MOST_SHARDS = 256;

/** Bytes of any origin: a run of a file, blocks of a vault one behind the other. A Source is one. */
export interface ReadableBytes {
  readonly byteLength: number;
  /** `into` is where they may go, and has exactly that length: memory that is used again costs less than new memory. */
  read(offset: number, byteLength: number, options?: { readonly into?: Bytes }): Promise<Bytes>;
}

/** Where everything is in a payload, from the grid and the length of what is protected alone. */
export interface AvecPlan {
  readonly grid: ParityGrid;
  /** Of what is protected. */
  readonly byteLength: number;
  readonly shardBytes: number;
  /** Data shards that are stored; the last group may lack some, which are zeros. */
  readonly shardCount: number;
  readonly groupCount: number;
  /** Where the checksums of parity shards begin in the payload. */
  readonly paritySumsAt: number;
  /** Where the parity shards begin in the payload. */
  readonly parityAt: number;
  /** Of the payload; 0 where nothing is protected. */
  readonly payloadBytes: number;
}

/** The payload over so many bytes (dossier 5.3). */
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

/** The head of a plan's payload; empty where nothing is protected. */
export function encodeAvecHeader({ grid, byteLength, shardBytes }: AvecPlan): Bytes {
  if (byteLength === 0) return EMPTY_BYTES;
  return avecHeader.encode({ ...grid, shardLength: shardBytes, totalLength: byteLength });
}

/**
 * The plan that a head speaks of; undefined where it is none, or promises what no payload holds. Nothing is allocated by
 * what it says: shards are at most a mebibyte and a group 256 of them.
 */
export function decodeAvecHeader(bytes: Bytes): AvecPlan | undefined {
  if (bytes.byteLength < AVEC_HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  // A length above 2^53 - 1 is that of nothing here, and would be refused with an error of its own.
  if (view.getUint32(18, true) > 0x1f_ffff) return undefined;
  const { magic, version, dataShards, parityShards, shardLength, totalLength } = avecHeader.decode(bytes, {
    source: "parity",
  });
  if (magic !== "AVEC" || version !== 2 || dataShards === 0 || parityShards === 0) return undefined;
  if (dataShards + parityShards > MOST_SHARDS || shardLength === 0 || shardLength > MOST_SHARD_BYTES) return undefined;
  return totalLength === 0 ? undefined : planShards({ dataShards, parityShards }, totalLength, shardLength);
}

/** A payload as it was found: how it is laid out, and whether its own head says so. */
interface FoundPlan {
  readonly plan: AvecPlan;
  readonly head: "sound" | "damaged";
}

/**
 * How a payload over `byteLength` bytes can be laid out, the likeliest first: as its head says where that fits the lengths,
 * and by every grid of which they follow. Empty where it is no payload over so many bytes. `likely` is what others know of
 * the grid: a head that says something else is damaged, as lengths alone do not always tell grids apart.
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

/** A run of this many damaged bytes can be healed wherever it lies; a longer one may touch too many shards of a group. */
export function longestBurst({ grid, shardBytes }: Pick<AvecPlan, "grid" | "shardBytes">): number {
  return (grid.parityShards - 1) * shardBytes + 1;
}

interface AvecEncoding {
  readonly engine: Engine;
  readonly plan: AvecPlan;
  readonly data: ReadableBytes;
  /** Takes a piece of the payload; pieces do not overlap, come in any order, and are the caller's once handed over. */
  write(offset: number, bytes: Bytes): Promise<void>;
  readonly signal?: AbortSignal | undefined;
  /** Called with the bytes of data that were taken in since the last call. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** Makes the payload of a plan with one group in memory. Nothing is written where nothing is protected. */
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

/** The payload in memory: for what is short. */
export async function avecPayload(encoding: Omit<AvecEncoding, "write">): Promise<Bytes> {
  const payload = new Uint8Array(encoding.plan.payloadBytes);
  await encodeAvec({ ...encoding, write: async (offset, bytes) => payload.set(bytes, offset) });
  return payload;
}

/** Room for the data shards of one group. */
export function groupMemory({ grid, shardBytes, byteLength }: AvecPlan): Bytes {
  return readMemory(Math.min(grid.dataShards * shardBytes, byteLength));
}

/** Bytes of data in a group: in the last one perhaps fewer than in others. */
export function groupLength({ grid, shardBytes, byteLength }: AvecPlan, group: number): number {
  const groupBytes = grid.dataShards * shardBytes;
  return Math.min(groupBytes, byteLength - group * groupBytes);
}

/** The data shards of a group that are stored, the last of all filled up with zeros. By one read, perhaps into `memory`. */
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

/** Checksums of shards, one behind the other. */
export async function shardSums(engine: Engine, shards: readonly Bytes[]): Promise<Bytes> {
  const sums = new Uint8Array(SHARD_SUM_BYTES * shards.length);
  for (const [i, shard] of shards.entries()) {
    const digest = await engine.digest("blake3", shard);
    sums.set(digest.subarray(0, SHARD_SUM_BYTES), SHARD_SUM_BYTES * i);
  }
  return sums;
}

/** A shard in its full length, by zeros at the end where it has to be. */
export function fillUp(shard: Bytes, byteLength: number): Bytes {
  if (shard.byteLength === byteLength) return shard;
  const filled = new Uint8Array(byteLength);
  filled.set(shard);
  return filled;
}
