import { commandText, nodeCommand, peakMemory, runCapturing, timeRun } from "../child.ts";
import { expectText, shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, memoryRow, milliseconds } from "../job.ts";
import { makeManyChunks } from "../make/aero-many.ts";
import { repeat } from "../measure.ts";

const LIMIT_MS = 4000;
const PEAK_LIMIT = 1.2e9;

/** Opens a file as large as any that people make: 100 000 chunks, 1 000 000 tensors. */
export const openAero: Job = {
  name: "open-aero",
  title: "open an AERO file of 100 000 chunks and 1 000 000 tensors",
  run: runOpen,
};

async function runOpen({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const file = await workspace.file("many.aero", makeManyChunks);
  const ours = nodeCommand(tare, "inspect", file);
  expectText((await runCapturing(ours)).stdout, ["1,000,000 tensors"]);
  const times = await repeat(runs, () => timeRun(ours));
  const rows = [
    {
      job: openAero.name,
      measure: "inspect, wall time with Node's start",
      ours: milliseconds(times),
      goal: `≤ ${LIMIT_MS} ms`,
      met: times.median <= LIMIT_MS,
    },
    memoryRow({ job: openAero.name, measure: "peak resident memory" }, { ours: await peakMemory(ours) }, PEAK_LIMIT),
  ];
  return { rows, commands: [commandText(ours, shortNames(root, workspace))] };
}
