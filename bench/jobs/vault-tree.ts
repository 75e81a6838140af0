import { rm, stat, writeFile } from "node:fs/promises";
import { type CommandLine, commandText, nodeCommand, timeRun } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, milliseconds, type Row } from "../job.ts";
import { makeSmallFiles } from "../make/small-files.ts";
import { type Statistics, takeTurns } from "../measure.ts";
import { findReference, timeReference, type VaultSide } from "../vault-peers.ts";
import { vaultRows } from "../vault-rows.ts";

const LIST_MS = 500;

/** 50 000 small files into a vault and out of it. */
export const vaultTree: Job = {
  name: "vault-tree",
  title: "vault: 50 000 small files, 139 MB",
  run: runTree,
};

async function runTree(context: BenchContext): Promise<JobResult> {
  const { workspace, runs, tare, root } = context;
  const input = await workspace.file("small-files", makeSmallFiles);
  const password = await workspace.file("vault-password", (path) => writeFile(path, "correct horse battery staple"));
  const vault = workspace.path("tree.aerovault");
  const out = workspace.path("tree-out");
  const verb = (name: string, ...args: readonly string[]): CommandLine =>
    nodeCommand(tare, "vault", name, vault, ...args, "--password-file", password);
  const job = vaultTree.name;
  const ours: VaultSide = {
    name: "tare",
    async add() {
      await rm(vault, { force: true });
      await timeRun(verb("create", "--profile", "fast"));
      return timeRun(verb("add", input));
    },
    async extract() {
      await rm(out, { recursive: true, force: true });
      return timeRun(verb("extract", "-o", out));
    },
  };
  const compared = await vaultRows(context, { job, input, ours, stored: async () => (await stat(vault)).size });
  const rows = [...compared, await listRow(runs, vault, () => timeRun(verb("ls")))];
  for (const path of [vault, out]) await rm(path, { recursive: true, force: true });
  const short = shortNames(root, workspace);
  return { rows, commands: [verb("add", input), verb("extract", "-o", out)].map((one) => commandText(one, short)) };
}

/**
 * Our list and, if it is installed, the reference's list of the same vault, because the time depends on the machine.
 */
async function listRow(runs: number, vault: string, ours: () => Promise<number>): Promise<Row> {
  const reference = findReference();
  const theirs = reference === undefined ? [] : [() => timeReference(reference, "ls", vault)];
  const [list, other] = (await takeTurns(runs, [ours, ...theirs])) as [Statistics, Statistics | undefined];
  const measure = other === undefined ? "list" : "list, beside the reference";
  const row = { job: vaultTree.name, measure, ours: milliseconds(list), goal: `≤ ${LIST_MS} ms` };
  const met = list.median <= LIST_MS;
  if (other === undefined) return { ...row, met };
  return { ...row, theirs: milliseconds(other), ratio: `${(list.median / other.median).toFixed(2)}× its time`, met };
}
