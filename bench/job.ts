import type { Statistics } from "./measure.ts";
import type { Workspace } from "./workspace.ts";

/** One line of the result: our figure and the figure that it is compared with. */
export interface Row {
  readonly job: string;
  /** What was measured, with its unit. */
  readonly measure: string;
  readonly ours: string;
  /** Absent if there is nothing to compare with (peak memory, a number of requests). */
  readonly theirs?: string | undefined;
  /** How many times better ours is, or the share of the baseline's rate; absent if there is nothing to divide by. */
  readonly ratio?: string | undefined;
  /** What the project promises; absent for figures that are only for information. */
  readonly goal?: string | undefined;
  /** Absent if there is no goal. */
  readonly met?: boolean | undefined;
}

/** The result of a job: its rows, the command lines that gave them, and notes about rows that were left out. */
export interface JobResult {
  readonly rows: readonly Row[];
  readonly commands: readonly string[];
  readonly notes?: readonly string[] | undefined;
}

/** What every job gets. */
export interface BenchContext {
  readonly workspace: Workspace;
  /** Measured runs of each side, after one that only warms up. */
  readonly runs: number;
  /** Repository root, with a slash at the end. */
  readonly root: string;
  /** The built command line. */
  readonly tare: string;
}

export interface Job {
  readonly name: string;
  readonly title: string;
  run(context: BenchContext): Promise<JobResult>;
}

/** `"123 ms (120–131)"`: the median and the whole range. */
export function milliseconds(statistics: Statistics): string {
  const digits = statistics.median < 10 ? 2 : statistics.median < 100 ? 1 : 0;
  const [median, least, most] = [statistics.median, statistics.least, statistics.most].map((ms) => ms.toFixed(digits));
  return statistics.count === 1 ? `${median} ms` : `${median} ms (${least}–${most})`;
}

/** `"1234 MB/s (1100–1300)"` for `byteLength` bytes handled in each of the times; MB = 10^6 bytes. */
export function rate(byteLength: number, statistics: Statistics): string {
  const [median, most, least] = [statistics.median, statistics.least, statistics.most].map((ms) =>
    (byteLength / 1e3 / ms).toFixed(0),
  );
  return statistics.count === 1 ? `${median} MB/s` : `${median} MB/s (${least}–${most})`;
}

/** `"131.2 MB"`, MB = 10^6 bytes. */
export function megabytes(byteLength: number): string {
  return `${(byteLength / 1e6).toFixed(1)} MB`;
}

/** A row whose goal is that our time is at most the baseline's divided by `atLeast`. */
export function fasterRow(
  place: { readonly job: string; readonly measure: string },
  sides: { readonly ours: Statistics; readonly theirs: Statistics },
  atLeast: number | undefined,
): Row {
  const ratio = sides.theirs.median / sides.ours.median;
  return {
    ...place,
    ours: milliseconds(sides.ours),
    theirs: milliseconds(sides.theirs),
    ratio: `${ratio.toFixed(2)}× faster`,
    ...(atLeast === undefined ? {} : { goal: `≥ ${atLeast}×`, met: ratio >= atLeast }),
  };
}

/** A row whose goal is that our time is at most `atMost` times the baseline's. */
export function timesRow(
  place: { readonly job: string; readonly measure: string },
  sides: { readonly ours: Statistics; readonly theirs: Statistics },
  atMost: number | undefined,
): Row {
  const ratio = sides.ours.median / sides.theirs.median;
  return {
    ...place,
    ours: milliseconds(sides.ours),
    theirs: milliseconds(sides.theirs),
    ratio: `${ratio.toFixed(2)}× its time`,
    ...(atMost === undefined ? {} : { goal: `≤ ${atMost}×`, met: ratio <= atMost }),
  };
}

/** A row whose goal is a share of a baseline's rate over the same bytes. */
export function rateRow(
  place: { readonly job: string; readonly measure: string; readonly byteLength: number },
  sides: { readonly ours: Statistics; readonly theirs: Statistics },
  atLeast: number | undefined,
): Row {
  const ratio = sides.theirs.median / sides.ours.median;
  return {
    job: place.job,
    measure: place.measure,
    ours: rate(place.byteLength, sides.ours),
    theirs: rate(place.byteLength, sides.theirs),
    ratio: `${ratio.toFixed(2)} of its rate`,
    ...(atLeast === undefined ? {} : { goal: `≥ ${atLeast}`, met: ratio >= atLeast }),
  };
}

/** A row about peak resident memory. `theirs` is only for information. */
export function memoryRow(
  place: { readonly job: string; readonly measure: string },
  sides: { readonly ours: number; readonly theirs?: number | undefined },
  atMost: number | undefined,
): Row {
  return {
    ...place,
    ours: megabytes(sides.ours),
    theirs: sides.theirs === undefined ? undefined : megabytes(sides.theirs),
    ratio: sides.theirs === undefined ? undefined : `${(sides.ours / sides.theirs).toFixed(2)} of its memory`,
    ...(atMost === undefined ? {} : { goal: `≤ ${atMost / 1e6} MB`, met: sides.ours <= atMost }),
  };
}
