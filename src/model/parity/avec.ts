import { type Bytes, EMPTY_BYTES, equalBytes } from "../../base/bytes.ts";
import { ascii, reserved, struct, u16, u32, u64 } from "../../struct/layout.ts";
import { knownGrids, type ParityGrid } from "./grid.ts";

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
export interface FoundPlan {
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
