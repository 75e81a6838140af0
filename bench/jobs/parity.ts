import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { type CommandLine, commandText, isInstalled, nodeCommand, peakMemory, timeRun } from "../child.ts";
import { expectSameFile, shortNames } from "../expect.ts";
import { type BenchContext, fasterRow, type Job, type JobResult, memoryRow, milliseconds, type Row } from "../job.ts";
import { makeNoise } from "../make/noise.ts";
import { type Statistics, takeTurns } from "../measure.ts";

/** What the file takes, and how much of it may be parity. */
const FILE_BYTES = 1_000_000_000;
const PERCENT = 15;
const TIMES_PAR2 = 10;
const TIMES_REFERENCE = 1;

/** Parity of any file. */
export const parity: Job = {
  name: "parity",
  title: "correct gen of 1 GB at 15 %",
  run: runParity,
};

async function runParity({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const file = await workspace.file("protected.bin", (path) => makeNoise(path, FILE_BYTES));
  const sidecar = `${file}.aerocorrect`;
  const gen = nodeCommand(tare, "correct", "gen", file, "--parity", `${PERCENT}%`, "--force");
  const reference = referenceCommand(file, workspace.path("reference.aerocorrect"));
  const sides = [gen, ...(reference === undefined ? [] : [reference])];
  const [ours, theirs] = await takeTurns(
    runs,
    sides.map((side) => () => timeRun(side)),
  );
  const par2 = par2Command(workspace.path("par2"), file);
  const place = { job: parity.name, measure: "parity of 1 GB at 15 %, against aerovault correct gen" };
  const rows: Row[] = [await againstPar2(par2, workspace.path("par2"), ours as Statistics)];
  if (theirs !== undefined) {
    await expectSameFile(sidecar, workspace.path("reference.aerocorrect"));
    rows.push(fasterRow(place, { ours: ours as Statistics, theirs }, TIMES_REFERENCE));
  }
  rows.push(
    memoryRow(
      { job: parity.name, measure: "peak resident memory of correct gen" },
      { ours: await peakMemory(gen) },
      undefined,
    ),
  );
  await rm(sidecar, { force: true });
  await workspace.discard("reference.aerocorrect");
  await workspace.discard("protected.bin");
  const short = shortNames(root, workspace);
  const commands = [gen, par2, ...(reference === undefined ? [] : [reference])];
  return { rows, commands: commands.map((command) => commandText(command, short)), notes: missing(rows, theirs) };
}

function missing(rows: readonly Row[], reference: Statistics | undefined): string[] {
  return [
    ...(rows[0]?.theirs === undefined ? ["par2create is not installed: get Debian's par2 for its row"] : []),
    ...(reference === undefined ? ["AEROVAULT names no aerovault program: its row is missing"] : []),
  ];
}

/** The program of the vault format; for plain files it asks for no password, so that it needs no terminal here. */
function referenceCommand(file: string, out: string): CommandLine | undefined {
  const program = process.env["AEROVAULT"];
  if (program === undefined || !existsSync(program)) return undefined;
  return { program, args: ["correct", "gen", file, "--ec", `${PERCENT}`, "-o", out] };
}

function par2Command(base: string, file: string): CommandLine {
  return { program: "par2create", args: ["-q", "-q", `-r${PERCENT}`, "-n1", `${base}.par2`, file] };
}

/** Once: it takes minutes, and varies by far less than the goal asks for. */
async function againstPar2(par2: CommandLine, base: string, ours: Statistics): Promise<Row> {
  const place = { job: parity.name, measure: "parity of 1 GB at 15 %, against par2create -r15" };
  if (!(await isInstalled("par2create"))) return { ...place, ours: milliseconds(ours) };
  const [theirs] = await takeTurns(1, [() => timeRun(par2)]);
  for (const suffix of [".par2", ".vol0000+300.par2", ".vol000+300.par2"])
    await rm(`${base}${suffix}`, { force: true });
  return fasterRow(place, { ours, theirs: theirs as Statistics }, TIMES_PAR2);
}
