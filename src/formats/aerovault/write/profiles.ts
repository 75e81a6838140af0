import { UsageError } from "../../../base/errors.ts";
import { isPowerOfTwo } from "../../../base/integers.ts";
import { type ChunkBounds, DEFAULT_BOUNDS, DEFAULT_LEVEL } from "../manifest/records.ts";

/** A wider window for zstd, coarser deduplication (docs/vault.md#profiles). */
const ARCHIVE_BOUNDS: ChunkBounds = { min: 1 << 20, avg: 4 << 20, max: 16 << 20 };
/** Levels from this one on take the archive's bounds by default (docs/formats/aerovault.md#cuts). */
const ARCHIVE_LEVEL = 19;
/** The highest level of zstd; the reference records any number and lets zstd cap it. */
const MAX_LEVEL = 22;
const LEAST_MIN = 4096;
/** A block may have 64 MiB; one that is stored raw adds nonce and tag. No reader accepts a longer one. */
const MOST_MAX = (64 << 20) - 28;

export const PROFILES = ["fast", "balanced", "archive"] as const;
export type Profile = (typeof PROFILES)[number];

/** The settings of a new vault, which its manifest records. */
export interface VaultSettings {
  readonly level: number;
  readonly bounds: ChunkBounds;
}

const LEVELS: Readonly<Record<Profile, number>> = {
  fast: 3,
  balanced: DEFAULT_LEVEL,
  archive: ARCHIVE_LEVEL,
};

/** Level and bounds of a profile (docs/vault.md#profiles). */
export function profileSettings(profile: Profile): VaultSettings {
  return levelSettings(LEVELS[profile]);
}

/** The profile whose level a vault records; undefined for any other level. */
export function profileOf(recorded: number = DEFAULT_LEVEL): Profile | undefined {
  return PROFILES.find((profile) => LEVELS[profile] === recorded);
}

/** A level with its default bounds. */
export function levelSettings(level: number): VaultSettings {
  return { level, bounds: level >= ARCHIVE_LEVEL ? ARCHIVE_BOUNDS : DEFAULT_BOUNDS };
}

/** Refuses bounds that the reference would not use, or whose chunks could not be read back. */
export function checkBounds(bounds: ChunkBounds, label: string): void {
  const { min, avg, max } = bounds;
  const fine = min >= LEAST_MIN && min <= avg && avg <= max && max <= MOST_MAX && isPowerOfTwo(avg);
  if (fine) return;
  throw new UsageError(
    "usage/vault.bounds",
    `Cannot cut chunks of ${min} to ${max} bytes, ${avg} on average: must be ${LEAST_MIN} <= min <= avg <= max <= ${MOST_MAX} with avg a power of two`,
    { source: label, path: "wrappers.chunking.bounds" },
  );
}

/** The level that zstd really uses for a recorded one: 0 means 3, and 22 is the highest. */
export function effectiveLevel(recorded: number | undefined): number {
  if (recorded === undefined) return DEFAULT_LEVEL;
  if (recorded === 0) return LEVELS.fast;
  return Math.min(Math.max(recorded, 1), MAX_LEVEL);
}
