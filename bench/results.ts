import { readFile, writeFile } from "node:fs/promises";
import type { JobResult } from "./job.ts";
import type { Machine } from "./report.ts";

/** What a job gave the last time it was measured properly. */
export interface Recorded extends JobResult {
  readonly name: string;
  readonly title: string;
  readonly machine: Machine;
  readonly runs: number;
  /** What the files lay on: "tmpfs". */
  readonly folder: string;
}

/** The recorded results; empty where there are none yet. */
export async function readResults(path: string): Promise<readonly Recorded[]> {
  const text = await readFile(path, "utf8").catch(() => "[]");
  return JSON.parse(text) as readonly Recorded[];
}

/** Puts new results in the place of the jobs' old ones; jobs that no longer exist are dropped. */
export function mergeResults(
  old: readonly Recorded[],
  fresh: readonly Recorded[],
  order: readonly string[],
): readonly Recorded[] {
  const byName = new Map([...old, ...fresh].map((result) => [result.name, result]));
  return order.flatMap((name) => byName.get(name) ?? []);
}

export async function writeResults(path: string, results: readonly Recorded[]): Promise<void> {
  await writeFile(path, `${JSON.stringify(results, undefined, 2)}\n`);
}
