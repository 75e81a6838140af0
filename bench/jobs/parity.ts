import { rm } from "node:fs/promises";
import { type CommandLine, commandText, isInstalled, nodeCommand, peakMemory, timeRun } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, fasterRow, type Job, type JobResult, memoryRow, milliseconds, type Row } from "../job.ts";
import { makeNoise } from "../make/noise.ts";
import { repeat, type Statistics } from "../measure.ts";

/** The length of the file, and its parity in percent. */
const FILE_BYTES = 1_000_000_000;
const PERCENT = 15;
const TIMES_PAR2 = 10;

/** Parity of any file, compared with the usual program for that. */
export const parity: Job = {
  name: "parity",
  title: "correct gen of 1 GB at 15 %",
  run: runParity,
};

async function runParity({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const file = await workspace.file("protected.bin", (path) => makeNoise(path, FILE_BYTES));
  const gen = nodeCommand(tare, "correct", "gen", file, "--parity", `${PERCENT}%`, "--force");
  const par2 = par2Command(workspace.path("par2"), file);
  const rows: Row[] = [
    await againstPar2(par2, workspace.path("par2"), await repeat(runs, () => timeRun(gen))),
    memoryRow(
      { job: parity.name, measure: "peak resident memory of correct gen" },
      { ours: await peakMemory(gen) },
      undefined,
    ),
  ];
  await rm(`${file}.aerocorrect`, { force: true });
  await workspace.discard("protected.bin");
  const short = shortNames(root, workspace);
  const missing = rows[0]?.theirs === undefined ? ["par2create is not installed: get Debian's par2 for its row"] : [];
  return { rows, commands: [gen, par2].map((command) => commandText(command, short)), notes: missing };
}

function par2Command(base: string, file: string): CommandLine {
  return { program: "par2create", args: ["-q", "-q", `-r${PERCENT}`, "-n1", `${base}.par2`, file] };
}

/** Runs once, because it takes minutes and varies far less than the goal requires. */
async function againstPar2(par2: CommandLine, base: string, ours: Statistics): Promise<Row> {
  const place = { job: parity.name, measure: "parity of 1 GB at 15 %, against par2create -r15" };
  if (!(await isInstalled("par2create"))) return { ...place, ours: milliseconds(ours) };
  const theirs = await repeat(1, () => timeRun(par2));
  for (const suffix of [".par2", ".vol0000+300.par2", ".vol000+300.par2"])
    await rm(`${base}${suffix}`, { force: true });
  return fasterRow(place, { ours, theirs }, TIMES_PAR2);
}
