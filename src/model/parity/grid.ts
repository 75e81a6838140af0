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
