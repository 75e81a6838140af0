import { open, rm } from "node:fs/promises";
import { type CommandLine, commandText, isInstalled, nodeCommand, peakMemory, timeRun } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, fasterRow, type Job, type JobResult, memoryRow, milliseconds, type Row } from "../job.ts";
import { repeat, type Statistics } from "../measure.ts";

/** What the file takes, and how much of it may be parity. */
const FILE_BYTES = 1_000_000_000;
const PERCENT = 15;
/** Ten holes of 1 MB, none of them in the group of 13 MiB of another one. */
const HOLES = 10;
const HOLE_BYTES = 1_000_000;
const TIMES_PAR2 = 10;
/** A repair may take so many times as long as reading the file twice. */
const TIMES_READING = 3;

/** Parity of any file, and a repair with it. */
export const parity: Job = {
  name: "parity",
  title: "correct gen and correct repair of 1 GB at 15 %",
  run: runParity,
};

async function runParity({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const file = await workspace.file("protected.bin", makeNoise);
  const sidecar = `${file}.aerocorrect`;
  const gen = nodeCommand(tare, "correct", "gen", file, "--parity", `${PERCENT}%`, "--force");
  const repair = nodeCommand(tare, "correct", "repair", file);
  const readTwice: CommandLine = { program: "cat", args: [file, file] };
  const generated = await repeat(runs, () => timeRun(gen));
  const rows: Row[] = [await againstPar2(workspace.path("par2"), file, generated)];
  const read = await repeat(runs, () => timeRun(readTwice));
  const repaired = await repeat(runs, async () => {
    await punchHoles(file);
    return timeRun(repair);
  });
  rows.push(repairRow(repaired, read));
  rows.push(
    memoryRow(
      { job: parity.name, measure: "peak resident memory of correct gen" },
      { ours: await peakMemory(gen) },
      undefined,
    ),
  );
  await rm(sidecar, { force: true });
  await workspace.discard("protected.bin");
  const short = shortNames(root, workspace);
  const missing = rows[0]?.theirs === undefined ? ["par2create is not installed: get Debian's par2 for its row"] : [];
  return {
    rows,
    commands: [gen, par2Command(workspace.path("par2"), file), repair, readTwice].map((command) =>
      commandText(command, short),
    ),
    notes: missing,
  };
}

function par2Command(base: string, file: string): CommandLine {
  return { program: "par2create", args: ["-q", "-q", `-r${PERCENT}`, "-n1", `${base}.par2`, file] };
}

/** Once: it takes minutes, and varies by far less than the goal asks for. */
async function againstPar2(base: string, file: string, ours: Statistics): Promise<Row> {
  const place = { job: parity.name, measure: "parity of 1 GB at 15 %, against par2create -r15" };
  if (!(await isInstalled("par2create"))) return { ...place, ours: milliseconds(ours) };
  const theirs = await repeat(1, () => timeRun(par2Command(base, file)));
  for (const suffix of [".par2", ".vol0000+300.par2", ".vol000+300.par2"])
    await rm(`${base}${suffix}`, { force: true });
  return fasterRow(place, { ours, theirs }, TIMES_PAR2);
}

function repairRow(ours: Statistics, read: Statistics): Row {
  const ratio = ours.median / read.median;
  return {
    job: parity.name,
    measure: "repair of ten holes of 1 MB, against cat of the file twice",
    ours: milliseconds(ours),
    theirs: milliseconds(read),
    ratio: `${ratio.toFixed(2)}× as long`,
    goal: `≤ ${TIMES_READING}×`,
    met: ratio <= TIMES_READING,
  };
}

async function makeNoise(path: string): Promise<void> {
  const piece = new Uint8Array(1 << 20);
  const handle = await open(path, "w");
  try {
    for (let done = 0; done < FILE_BYTES; done += piece.byteLength) {
      for (let i = 0; i < piece.byteLength; i += 65_536) crypto.getRandomValues(piece.subarray(i, i + 65_536));
      await handle.write(piece, 0, Math.min(piece.byteLength, FILE_BYTES - done));
    }
  } finally {
    await handle.close();
  }
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
