import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { type CommandLine, commandText, nodeCommand, timeRun } from "../child.ts";
import { expectSameFile, shortNames } from "../expect.ts";
import { type BenchContext, fasterRow, type Job, type JobResult } from "../job.ts";
import { makeNoise } from "../make/noise.ts";
import { interleave } from "../measure.ts";

const FILE_BYTES = 1_000_000_000;
const PERCENT = 15;
/** Faster than the program of the vault format (`AEROVAULT` names it). */
const TIMES_REFERENCE = 1;

/** The same sidecar by the program that defines it. */
export const parityReference: Job = {
  name: "parity-reference",
  title: "correct gen of 1 GB at 15 %, and aerovault correct gen",
  run: runReference,
};

async function runReference({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const program = process.env["AEROVAULT"];
  if (program === undefined || !existsSync(program)) {
    return { rows: [], commands: [], notes: ["AEROVAULT names no aerovault program: its row is missing"] };
  }
  const file = await workspace.file("protected.bin", (path) => makeNoise(path, FILE_BYTES));
  const out = workspace.path("reference.aerocorrect");
  const gen = nodeCommand(tare, "correct", "gen", file, "--parity", `${PERCENT}%`, "--force");
  // For plain files it asks for no password, so it needs no terminal.
  const reference: CommandLine = { program, args: ["correct", "gen", file, "--ec", `${PERCENT}`, "-o", out] };
  const times = await interleave(
    runs,
    () => timeRun(gen),
    () => timeRun(reference),
  );
  await expectSameFile(`${file}.aerocorrect`, out);
  await rm(`${file}.aerocorrect`, { force: true });
  await workspace.discard("reference.aerocorrect");
  await workspace.discard("protected.bin");
  const short = shortNames(root, workspace);
  const place = { job: parityReference.name, measure: "parity of 1 GB at 15 %, against aerovault correct gen" };
  return {
    rows: [fasterRow(place, times, TIMES_REFERENCE)],
    commands: [gen, reference].map((command) => commandText(command, short)),
    notes: [],
  };
}
