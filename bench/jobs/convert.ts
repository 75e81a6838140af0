import { rm } from "node:fs/promises";
import {
  type CommandLine,
  commandText,
  isInstalled,
  nodeCommand,
  peakMemory,
  runCapturing,
  timeRun,
} from "../child.ts";
import { expectText, shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, memoryRow, type Row, rate, rateRow } from "../job.ts";
import { makeFourGigabytes, makeTwoGigabytes } from "../make/safetensors-models.ts";
import { interleave, repeat } from "../measure.ts";

const SHARE_OF_CP = 0.5;
const PEAK_LIMIT = 220e6;
/** "The same at 4 GB": two runs of the same size differ by this much anyway. */
const SAME_MEMORY = 1.1;

/** SafeTensors to GGUF, against a copy of the same file on the same file system. */
export const convert: Job = {
  name: "convert",
  title: "convert SafeTensors to GGUF",
  run: runConvert,
};

async function runConvert(context: BenchContext): Promise<JobResult> {
  const { workspace, runs, tare, root } = context;
  const input = await workspace.file("two.safetensors", makeTwoGigabytes);
  const output = workspace.path("converted");
  const ours = nodeCommand(tare, "convert", input, `${output}.gguf`);
  const theirs: CommandLine = { program: "cp", args: [input, `${output}.copy`] };
  const byteLength = await workspace.byteLength(input);
  await runCapturing(ours);
  // The input has 291 tensors. A separate reader, not the writer, says how many the output has.
  expectText((await runCapturing(nodeCommand(tare, "inspect", `${output}.gguf`))).stdout, ["291"]);
  const oursTime = () => timeFresh(ours, `${output}.gguf`);
  const short = shortNames(root, workspace);
  const place = { job: convert.name, measure: `2 GB on ${workspace.kind}`, byteLength };
  let row: Row;
  const notes: string[] = [];
  if (await isInstalled("cp")) {
    await timeFresh(theirs, `${output}.copy`);
    row = rateRow(place, await interleave(runs, oursTime, () => timeFresh(theirs, `${output}.copy`)), SHARE_OF_CP);
  } else {
    row = { job: convert.name, measure: place.measure, ours: rate(byteLength, await repeat(runs, oursTime)) };
    notes.push("cp is not installed: get GNU coreutils for its row");
  }
  if (workspace.kind !== "tmpfs") notes.push("The work folder is not on tmpfs: rates show the disk, not the program");
  const memory = await measureMemory(context, { ours, output: `${output}.gguf` });
  return { rows: [row, ...memory], commands: [commandText(ours, short), commandText(theirs, short)], notes };
}

/** Deletes the output first, outside the measured time, so that neither side profits from pages that already exist. */
async function timeFresh(command: CommandLine, output: string): Promise<number> {
  await rm(output, { force: true });
  const milliseconds = await timeRun(command);
  await rm(output, { force: true });
  return milliseconds;
}

async function measureMemory(
  { workspace, tare }: BenchContext,
  two: { readonly ours: CommandLine; readonly output: string },
): Promise<Row[]> {
  const peakAtTwo = await peakMemory(two.ours);
  await rm(two.output, { force: true });
  const large = await workspace.file("four.safetensors", makeFourGigabytes);
  const peakAtFour = await peakMemory(nodeCommand(tare, "convert", large, two.output));
  await rm(two.output, { force: true });
  await workspace.discard("four.safetensors");
  const growth = peakAtFour / peakAtTwo;
  return [
    memoryRow({ job: convert.name, measure: "peak resident memory, 2 GB" }, { ours: peakAtTwo }, PEAK_LIMIT),
    {
      ...memoryRow({ job: convert.name, measure: "peak resident memory, 4 GB" }, { ours: peakAtFour }, PEAK_LIMIT),
      ratio: `${growth.toFixed(2)} of the 2 GB run`,
      goal: `≤ ${PEAK_LIMIT / 1e6} MB, the same as at 2 GB (± 10 %)`,
      met: peakAtFour <= PEAK_LIMIT && growth <= SAME_MEMORY,
    },
  ];
}
