import { copyFile, open, rm } from "node:fs/promises";
import { type CommandLine, commandText, nodeCommand, peakMemory, timeRun } from "../child.ts";
import { expectSameFile, shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, memoryRow, milliseconds } from "../job.ts";
import { makeNoise } from "../make/noise.ts";
import { interleave } from "../measure.ts";

/** The length of the file, and its parity in percent. */
const FILE_BYTES = 1_000_000_000;
const PERCENT = 15;
/** Ten holes of 1 MB, each in a different group of 13 MiB. */
const HOLES = 10;
const HOLE_BYTES = 1_000_000;
/** A repair may take this many times as long as reading the file twice. */
const TIMES_READING = 3;

/** A repair by parity. */
export const parityRepair: Job = {
  name: "parity-repair",
  title: "correct repair of 1 GB at 15 %",
  run: runRepair,
};

async function runRepair({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const file = await workspace.file("damaged.bin", (path) => makeNoise(path, FILE_BYTES));
  const whole = await workspace.file("whole.bin", (path) => copyFile(file, path));
  await timeRun(nodeCommand(tare, "correct", "gen", file, "--parity", `${PERCENT}%`));
  const repair = nodeCommand(tare, "correct", "repair", file);
  const readTwice: CommandLine = { program: "cat", args: [file, file] };
  const damaged = async (): Promise<CommandLine> => {
    await punchHoles(file);
    return repair;
  };
  const { ours, theirs } = await interleave(
    runs,
    async () => timeRun(await damaged()),
    () => timeRun(readTwice),
  );
  const ratio = ours.median / theirs.median;
  const peak = await peakMemory(await damaged());
  await expectSameFile(file, whole);
  await rm(`${file}.aerocorrect`, { force: true });
  await workspace.discard("damaged.bin");
  await workspace.discard("whole.bin");
  const short = shortNames(root, workspace);
  const job = parityRepair.name;
  return {
    rows: [
      {
        job,
        measure: "repair of ten holes of 1 MB, against cat of the file twice",
        ours: milliseconds(ours),
        theirs: milliseconds(theirs),
        ratio: `${ratio.toFixed(2)}× as long`,
        goal: `≤ ${TIMES_READING}×`,
        met: ratio <= TIMES_READING,
      },
      memoryRow({ job, measure: "peak resident memory of correct repair" }, { ours: peak }, undefined),
    ],
    commands: [repair, readTwice].map((command) => commandText(command, short)),
    notes: [],
  };
}

async function punchHoles(path: string): Promise<void> {
  const handle = await open(path, "r+");
  try {
    const zeros = new Uint8Array(HOLE_BYTES);
    for (let i = 0; i < HOLES; i++)
      await handle.write(zeros, 0, zeros.byteLength, 5_000_000 + (i * FILE_BYTES) / HOLES);
  } finally {
    await handle.close();
  }
}
