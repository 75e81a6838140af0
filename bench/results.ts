import { readFile, writeFile } from "node:fs/promises";
import type { JobResult } from "./job.ts";
import type { Machine } from "./report.ts";

/** The result of a job's last full measurement. */
export interface Recorded extends JobResult {
  readonly name: string;
  readonly title: string;
  readonly machine: Machine;
  readonly runs: number;
  /** The kind of file system: "tmpfs". */
  readonly folder: string;
}

/** The recorded results; empty if there are none yet. */
export async function readResults(path: string): Promise<readonly Recorded[]> {
  const text = await readFile(path, "utf8").catch(() => "[]");
  return JSON.parse(text) as readonly Recorded[];
}

/** Replaces the old results of jobs with the new ones. Drops jobs that no longer exist. */
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
