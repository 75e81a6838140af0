import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { type CommandLine, commandText, nodeCommand, peakMemory, runCapturing, timeRun } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, memoryRow, type Row, timesRow } from "../job.ts";
import { makeWeights } from "../make/weights.ts";
import { interleave } from "../measure.ts";
import type { VaultSide } from "../vault-peers.ts";
import { vaultRows } from "../vault-rows.ts";

const PEAK_LIMIT = 428e6; // 300 MB beyond the 128 MiB of Argon2id, rounded down
const MORE_TIME = 1.3;

/** 512 MiB of bf16 weights into a vault and out of it. */
export const vaultWeights: Job = {
  name: "vault-weights",
  title: "vault: 512 MiB of bf16 weights",
  run: runWeights,
};

async function runWeights(context: BenchContext): Promise<JobResult> {
  const { workspace, runs, tare, root } = context;
  const input = await workspace.file("weights.safetensors", makeWeights);
  const password = await workspace.file("vault-password", (path) => writeFile(path, "correct horse battery staple"));
  const vault = workspace.path("weights.aerovault");
  const out = workspace.path("weights-out");
  const verb = (name: string, ...args: readonly string[]): CommandLine =>
    nodeCommand(tare, "vault", name, vault, ...args, "--password-file", password);
  const fresh = async (profile: string): Promise<number> => {
    await rm(vault, { force: true });
    await timeRun(verb("create", "--profile", profile));
    return timeRun(verb("add", input));
  };
  const extract = async (): Promise<number> => {
    await rm(out, { recursive: true, force: true });
    return timeRun(verb("extract", "-o", out));
  };
  const job = vaultWeights.name;
  const ours: VaultSide = { name: "tare", add: () => fresh("fast"), extract };
  const compared = await vaultRows(context, { job, input, ours, stored: async () => (await stat(vault)).size });
  await expectSame(input, `${out}/weights.safetensors`);
  const balanced = await interleave(
    runs,
    () => fresh("balanced"),
    () => fresh("fast"),
  );
  const rows: Row[] = [
    ...compared,
    timesRow({ job, measure: "add, profile balanced, against fast" }, balanced, MORE_TIME),
  ];
  await rm(vault, { force: true });
  await timeRun(verb("create", "--profile", "fast"));
  const peak = await peakMemory(verb("add", input));
  rows.push(memoryRow({ job, measure: "peak resident memory of add" }, { ours: peak }, PEAK_LIMIT));
  await rm(vault, { force: true });
  await timeRun(verb("create", "--profile", "fast"));
  rows.push(await editRow(context, input, verb));
  for (const path of [vault, out]) await rm(path, { recursive: true, force: true });
  const short = shortNames(root, workspace);
  return { rows, commands: [verb("add", input), verb("extract", "-o", out)].map((one) => commandText(one, short)) };
}

async function expectSame(a: string, b: string): Promise<void> {
  const [first, second] = await Promise.all([readFile(a), readFile(b)]);
  if (!first.equals(second)) throw new Error(`Cannot measure: "${b}" must hold what was stored`);
}

/** The share of new bytes after 1 MiB was inserted in the middle of the file. */
async function editRow(
  { workspace }: BenchContext,
  input: string,
  verb: (name: string, ...args: readonly string[]) => CommandLine,
): Promise<Row> {
  const bytes = await readFile(input);
  const edited = workspace.path("weights-edited.bin");
  const middle = bytes.length >> 1;
  await writeFile(edited, Buffer.concat([bytes.subarray(0, middle), Buffer.alloc(1 << 20, 7), bytes.subarray(middle)]));
  const before = workspace.path("weights-before.bin");
  await writeFile(before, bytes);
  // Cut by content only, because the edited file is no longer a model.
  const first = await storedBy(verb("add", before, "--json", "--no-tensor-cuts"));
  const second = await storedBy(verb("add", edited, "--json", "--no-tensor-cuts"));
  await rm(edited);
  await rm(before);
  const share = second / first;
  return {
    job: vaultWeights.name,
    measure: "stored again after inserting 1 MiB in the middle, share of a full add",
    ours: `${(share * 100).toFixed(2)} %`,
    goal: "≤ 5 %",
    met: share <= 0.05,
  };
}

async function storedBy(command: CommandLine): Promise<number> {
  const { stdout } = await runCapturing(command);
  return (JSON.parse(stdout) as { storedBytes: number }).storedBytes;
}
