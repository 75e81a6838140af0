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
import { makeFourGigabytes } from "../make/safetensors-models.ts";
import { interleave, repeat } from "../measure.ts";

/** Shares of b3sum's rate on two threads, with one digest over every byte and with three. */
const CHUNKS_ONLY = 0.8;
const THREE_DIGESTS = 0.35;
const PEAK_LIMIT = 250e6;

/** verify --full of a 4 GB AERO file of several shards, against b3sum of the same bytes. */
export const verifyAero: Job = { name: "verify-aero", title: "verify --full of a 4 GB AERO file", run: runVerify };

interface Kind {
  readonly measure: string;
  readonly flags: readonly string[];
  readonly atLeast: number;
}

const KINDS: readonly Kind[] = [
  { measure: "chunk digests only", flags: [], atLeast: CHUNKS_ONLY },
  { measure: "chunk, page and tensor digests", flags: ["--page-hashes", "--tensor-hashes"], atLeast: THREE_DIGESTS },
];

async function runVerify(context: BenchContext): Promise<JobResult> {
  const { workspace, tare, root } = context;
  const input = await workspace.file("four.safetensors", makeFourGigabytes);
  const rows: Row[] = [];
  const notes: string[] = [];
  const commands: CommandLine[] = [];
  for (const kind of KINDS) {
    const file = workspace.path("verify.aero");
    await rm(file, { force: true });
    const make = nodeCommand(tare, "convert", input, file, "--max-shard-size", "1GiB", ...kind.flags);
    await runCapturing(make);
    const ours = nodeCommand(tare, "verify", "--full", file);
    expectText((await runCapturing(ours)).stdout, ["ok"]);
    commands.push(make, ours);
    rows.push(await compare(context, file, ours, kind, notes, commands));
    const place = { job: verifyAero.name, measure: `peak resident memory, ${kind.measure}` };
    rows.push(memoryRow(place, { ours: await peakMemory(ours) }, PEAK_LIMIT));
    await rm(file, { force: true });
  }
  await workspace.discard("four.safetensors");
  const short = shortNames(root, workspace);
  return { rows, commands: [...new Set(commands.map((command) => commandText(command, short)))], notes };
}

async function compare(
  { workspace, runs }: BenchContext,
  file: string,
  ours: CommandLine,
  kind: Kind,
  notes: string[],
  commands: CommandLine[],
): Promise<Row> {
  const byteLength = await workspace.byteLength(file);
  const place = { job: verifyAero.name, measure: kind.measure, byteLength };
  if (!(await isInstalled("b3sum"))) {
    notes.push("b3sum is not installed: install the Debian package b3sum for its row");
    return { job: place.job, measure: place.measure, ours: rate(byteLength, await repeat(runs, () => timeRun(ours))) };
  }
  const theirs: CommandLine = { program: "b3sum", args: ["--num-threads", "2", file] };
  commands.push(theirs);
  await timeRun(theirs);
  const sides = await interleave(
    runs,
    () => timeRun(ours),
    () => timeRun(theirs),
  );
  return rateRow(place, sides, kind.atLeast);
}
