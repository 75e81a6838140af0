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
import { type BenchContext, type Job, type JobResult, memoryRow, type Row, timesRow } from "../job.ts";
import { makeFourGigabytes, makeTwoGigabytes } from "../make/safetensors-models.ts";
import { interleave } from "../measure.ts";

/** Our time divided by that of a copy and a hash of the same file, one after the other. */
const TIMES_OF_BOTH = 1.5;
const PEAK_LIMIT = 250e6;
const FLAGS = ["--page-hashes", "--tensor-hashes"];

/** SafeTensors to AERO with page and tensor digests, against `cp` and `b3sum` of the same file. */
export const convertAero: Job = {
  name: "convert-aero",
  title: "convert 2 GB SafeTensors to AERO with page and tensor digests",
  run: runConvert,
};

async function runConvert({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const input = await workspace.file("two.safetensors", makeTwoGigabytes);
  const output = workspace.path("converted.aero");
  const copy = workspace.path("converted.copy");
  const ours = nodeCommand(tare, "convert", input, output, ...FLAGS);
  const cp: CommandLine = { program: "cp", args: [input, copy] };
  const b3sum: CommandLine = { program: "b3sum", args: ["--num-threads", "2", copy] };
  const fresh = async (): Promise<number> => {
    await rm(output, { force: true });
    return timeRun(ours);
  };
  await fresh();
  expectText((await runCapturing(nodeCommand(tare, "verify", "--full", output))).stdout, ["ok"]);
  const rows: Row[] = [];
  const notes: string[] = [];
  if (await isInstalled("b3sum")) {
    const both = async (): Promise<number> => {
      await rm(copy, { force: true });
      return (await timeRun(cp)) + (await timeRun(b3sum));
    };
    await both();
    const place = { job: convertAero.name, measure: "against cp and b3sum, one after the other" };
    rows.push(timesRow(place, await interleave(runs, fresh, both), TIMES_OF_BOTH));
  } else notes.push("b3sum is not installed: install the Debian package b3sum for its row");
  for (const [size, make] of [
    ["2 GB", makeTwoGigabytes],
    ["4 GB", makeFourGigabytes],
  ] as const) {
    const name = size === "2 GB" ? "two.safetensors" : "four.safetensors";
    const file = await workspace.file(name, make);
    await rm(output, { force: true });
    await rm(copy, { force: true });
    const peak = await peakMemory(nodeCommand(tare, "convert", file, output, ...FLAGS));
    rows.push(
      memoryRow({ job: convertAero.name, measure: `peak resident memory, ${size}` }, { ours: peak }, PEAK_LIMIT),
    );
    if (size === "4 GB") await workspace.discard(name);
  }
  await rm(output, { force: true });
  const short = shortNames(root, workspace);
  return { rows, commands: [ours, cp, b3sum].map((command) => commandText(command, short)), notes };
}
