/** Order statistics of one side's runs. */
export interface Statistics {
  readonly median: number;
  readonly least: number;
  readonly most: number;
  readonly count: number;
}

export function statisticsOf(values: readonly number[]): Statistics {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  const lower = sorted.length % 2 === 0 ? (sorted[middle - 1] ?? Number.NaN) : upper;
  return {
    median: (lower + upper) / 2,
    least: sorted[0] ?? Number.NaN,
    most: sorted.at(-1) ?? Number.NaN,
    count: sorted.length,
  };
}

/**
 * Runs two sides in turn, `runs` times each, and swaps which side goes first every time. So a drift of the machine
 * (heat, a neighbour's load, freed memory) affects both. Each call returns its own milliseconds.
 */
export async function interleave(
  runs: number,
  ours: () => Promise<number>,
  theirs: () => Promise<number>,
): Promise<{ readonly ours: Statistics; readonly theirs: Statistics }> {
  const times = { ours: [] as number[], theirs: [] as number[] };
  for (let run = 0; run < runs; run++) {
    if (run % 2 === 0) {
      times.ours.push(await ours());
      times.theirs.push(await theirs());
    } else {
      times.theirs.push(await theirs());
      times.ours.push(await ours());
    }
  }
  return { ours: statisticsOf(times.ours), theirs: statisticsOf(times.theirs) };
}

/** Runs one side alone, for figures without a counterpart. */
export async function repeat(runs: number, side: () => Promise<number>): Promise<Statistics> {
  const values: number[] = [];
  for (let run = 0; run < runs; run++) values.push(await side());
  return statisticsOf(values);
}

/** Runs any number of sides in turn. Each round begins with the next side, for the same reason as in `interleave`. */
export async function takeTurns(runs: number, sides: readonly (() => Promise<number>)[]): Promise<Statistics[]> {
  const times = sides.map((): number[] => []);
  for (let run = 0; run < runs; run++) {
    for (let turn = 0; turn < sides.length; turn++) {
      const side = (run + turn) % sides.length;
      times[side]?.push((await sides[side]?.()) ?? Number.NaN);
    }
  }
  return times.map(statisticsOf);
}
