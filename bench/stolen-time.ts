import { readFileSync } from "node:fs";

/** Jiffies of the first line of /proc/stat, after the word: user nice system idle iowait irq softirq steal. */
const STEAL = 7;
const JIFFY_MS = 10;

/**
 * Milliseconds since the start for which the host took the processors of this virtual machine; undefined if unknown.
 */
export function stolenMs(stat: string | undefined = readStat()): number | undefined {
  const [name, ...counts] = stat?.split("\n", 1)[0]?.split(/\s+/) ?? [];
  const jiffies = Number(counts[STEAL]);
  return name === "cpu" && Number.isFinite(jiffies) ? jiffies * JIFFY_MS : undefined;
}

function readStat(): string | undefined {
  try {
    return readFileSync("/proc/stat", "utf8");
  } catch {
    return undefined;
  }
}

export interface UndisturbedRuns {
  readonly values: readonly number[];
  /** Results of runs that do not count, because more than `limitMs` was stolen from them. */
  readonly disturbed: readonly number[];
}

/**
 * For measures of a maximum, which a single theft would decide: repeats until `runs` runs were not disturbed. Only the
 * stolen time decides whether a run counts, never its result. After four times as many runs, all count.
 */
export async function undisturbed(
  runs: number,
  limitMs: number,
  work: () => Promise<number>,
  stolen: () => number | undefined = stolenMs,
): Promise<UndisturbedRuns> {
  const values: number[] = [];
  const disturbed: number[] = [];
  while (values.length < runs && disturbed.length < 4 * runs) {
    const before = stolen() ?? 0;
    const value = await work();
    ((stolen() ?? 0) - before > limitMs ? disturbed : values).push(value);
  }
  return values.length < runs ? { values: [...values, ...disturbed], disturbed: [] } : { values, disturbed };
}
