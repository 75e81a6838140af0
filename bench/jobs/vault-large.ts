import { rm, stat, writeFile } from "node:fs/promises";
import { type CommandLine, commandText, nodeCommand, timeRun } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, megabytes, milliseconds, type Row } from "../job.ts";
import { fillWithHoles } from "../make/large-vault.ts";
import { makeSafetensorsFile } from "../make/safetensors-file.ts";
import { repeat } from "../measure.ts";
import { blocksOfTensor } from "../vault-blocks.ts";

const CHANGE_MS = 1000;
const CHANGE_BYTES = 64e6;
const SPARE_BLOCKS = 3;

/** The cost of small changes of a large vault. */
export const vaultLarge: Job = {
  name: "vault-large",
  title: "vault: small changes of 21 GB",
  run: runLarge,
};

async function runLarge({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const vault = workspace.path("large.aerovault");
  const small = await workspace.file("small.bin", (path) => writeFile(path, Buffer.alloc(1_000_000, 3)));
  const verb = (name: string, ...args: readonly string[]): CommandLine =>
    nodeCommand(tare, "vault", name, vault, ...args);
  await rm(vault, { force: true });
  await timeRun(verb("create", "--no-encryption"));
  await fillWithHoles(vault);
  let made = 0;
  const rows: Row[] = [];
  for (const [measure, change] of [
    ["make a directory", () => verb("mkdir", `d${made++}`)],
    ["add 1 MB", () => verb("add", small, "--to", `d${made++}`)],
  ] as const) {
    const before = await stat(vault);
    const time = await repeat(runs, () => timeRun(change()));
    const after = await stat(vault);
    const written = Math.max(0, (after.blocks - before.blocks) * 512);
    rows.push(timeRow(measure, time), bytesRow(measure, written));
  }
  rows.push(await tensorRow(workspace, vault, verb));
  await rm(vault, { force: true });
  await rm(`${vault}.state`, { recursive: true, force: true });
  const short = shortNames(root, workspace);
  return { rows, commands: [commandText(verb("mkdir", "d0"), short), commandText(verb("add", small), short)] };
}

/** Adds a real model of 64 tensors of 8 MB, and reads one of them in the vault. */
async function tensorRow(
  workspace: BenchContext["workspace"],
  vault: string,
  verb: (name: string, ...args: readonly string[]) => CommandLine,
): Promise<Row> {
  const plan = Array.from({ length: 64 }, (_, i) => ({ name: `layers.${i}.weight`, shape: [1000, 4000] }));
  const model = await workspace.file("eight.safetensors", (path) => makeSafetensorsFile(path, plan, "bytes"));
  await timeRun(verb("add", model));
  const { read, needed } = await blocksOfTensor(vault, "eight.safetensors", "layers.40.weight");
  await workspace.discard("eight.safetensors");
  return {
    job: vaultLarge.name,
    measure: `one tensor of 8 MB: blocks read beyond the ${needed} that hold it or the model's header`,
    ours: String(read - needed),
    goal: `≤ ${SPARE_BLOCKS}`,
    met: read - needed <= SPARE_BLOCKS,
  };
}

function timeRow(measure: string, time: Awaited<ReturnType<typeof repeat>>): Row {
  const met = time.median < CHANGE_MS;
  return { job: vaultLarge.name, measure, ours: milliseconds(time), goal: `< ${CHANGE_MS} ms`, met };
}

function bytesRow(measure: string, written: number): Row {
  const goal = `≤ ${megabytes(CHANGE_BYTES)}`;
  const met = written <= CHANGE_BYTES;
  return {
    job: vaultLarge.name,
    measure: `${measure}, room taken on disk by all runs`,
    ours: megabytes(written),
    goal,
    met,
  };
}
