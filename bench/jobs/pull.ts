import { mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import {
  type CommandLine,
  commandText,
  isInstalled,
  nodeCommand,
  peakMemory,
  runCapturing,
  timeRun,
} from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, memoryRow, milliseconds, type Row, rateRow } from "../job.ts";
import { interleave } from "../measure.ts";
import { NGINX_MISSING, Nginx } from "../nginx.ts";
import { makeRemoteSet } from "./stream-set.ts";

const NOT_SLOWER = 1;
const THROTTLED_AT_MOST = 1.3;
const SLOW_RATE = 2_000_000;
const SET_NAME = "model.aeroset.json";
const FETCH_WRITE = fileURLToPath(new URL("./pull-fetch-write.mjs", import.meta.url));

/** The same set as stream-set, downloaded to the same kind of folder by three programs. Only ours checks digests. */
export const pull: Job = { name: "pull", title: "pull a 4 GB AEROSET from nginx", run: runPull };

async function runPull(context: BenchContext): Promise<JobResult> {
  const { workspace, root } = context;
  if (!(await isInstalled("nginx"))) return { rows: [], commands: [], notes: [NGINX_MISSING] };
  const folder = await makeRemoteSet(context);
  const server = await Nginx.start({ folder, scratch: workspace.path("nginx-pull") });
  try {
    const set = await describeSet(folder);
    const notes: string[] = [];
    const commands: CommandLine[] = [];
    const rows = await compareAll(context, { server, set, notes, commands });
    rows.push(await throttledRow(context, { folder, fast: server, set }));
    const short = [...shortNames(root, workspace), [server.origin, "http://127.0.0.1:PORT"] as const];
    return { rows, commands: commands.map((command) => commandText(command, short)), notes };
  } finally {
    await server.stop();
    await rm(workspace.path("pulled"), { recursive: true, force: true });
  }
}

interface SetFiles {
  readonly names: readonly string[];
  readonly byteLength: number;
}

async function describeSet(folder: string): Promise<SetFiles> {
  const names = (await readdir(folder)).sort();
  const sizes = await Promise.all(names.map(async (name) => (await stat(`${folder}/${name}`)).size));
  return { names, byteLength: sizes.reduce((sum, size) => sum + size, 0) };
}

interface Comparison {
  readonly server: Nginx;
  readonly set: SetFiles;
  readonly notes: string[];
  readonly commands: CommandLine[];
}

async function compareAll(context: BenchContext, { server, set, notes, commands }: Comparison): Promise<Row[]> {
  const { workspace, tare } = context;
  const into = workspace.path("pulled");
  const ours = nodeCommand(tare, "pull", `${server.origin}/${SET_NAME}`, "-o", into);
  const plain = nodeCommand(FETCH_WRITE, into, `${server.origin}/`, ...set.names);
  const peers: { readonly measure: string; readonly command: CommandLine }[] = [
    { measure: "against plain fetch and write, 8 at a time", command: plain },
  ];
  if (await isInstalled("aria2c"))
    peers.push({ measure: "against aria2c", command: await ariaCommand(workspace, server, set) });
  else notes.push("aria2c is not installed: install the Debian package aria2 for its row");
  commands.push(ours, ...peers.map(({ command }) => command));
  const rows: Row[] = [];
  for (const { measure, command } of peers) {
    await timeInto(into, command);
    const sides = await interleave(
      context.runs,
      () => timeInto(into, ours),
      () => timeInto(into, command),
    );
    rows.push(rateRow({ job: pull.name, measure, byteLength: set.byteLength }, sides, NOT_SLOWER));
  }
  await runCapturing(nodeCommand(tare, "verify", "--quick", `${into}/${SET_NAME}`));
  await emptyFolder(into);
  rows.push(
    memoryRow({ job: pull.name, measure: "peak resident memory" }, { ours: await peakMemory(ours) }, undefined),
  );
  return rows;
}

async function ariaCommand(workspace: BenchContext["workspace"], server: Nginx, set: SetFiles): Promise<CommandLine> {
  const list = workspace.path("pull-list.txt");
  await writeFile(list, set.names.map((name) => `${server.origin}/${name}\n`).join(""));
  const args = ["-q", "-x8", "-s8", "-k1M", "--file-allocation=none", "-d", workspace.path("pulled"), "-i", list];
  return { program: "aria2c", args };
}

/** Wall time of one run into an empty folder. */
async function timeInto(folder: string, command: CommandLine): Promise<number> {
  await emptyFolder(folder);
  return timeRun(command);
}

async function emptyFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
}

/** One part comes at 2 MB/s from the URL's own server, while the mirror is fast. */
async function throttledRow(
  { workspace, runs, tare }: BenchContext,
  { folder, fast, set }: { readonly folder: string; readonly fast: Nginx; readonly set: SetFiles },
): Promise<Row> {
  const into = workspace.path("pulled");
  const suffix = set.names.filter((name) => name.startsWith("part-"))[2] ?? "";
  const throttle = { suffix, bytesPerSecond: SLOW_RATE };
  const slow = await Nginx.start({ folder, scratch: workspace.path("nginx-pull-slow"), throttle });
  const from = (server: Nginx): CommandLine => {
    return nodeCommand(tare, "pull", `${server.origin}/${SET_NAME}`, "-o", into, "--mirror", `${fast.origin}/`);
  };
  try {
    const sides = await interleave(
      runs,
      () => timeInto(into, from(slow)),
      () => timeInto(into, from(fast)),
    );
    const ratio = sides.ours.median / sides.theirs.median;
    return {
      job: pull.name,
      measure: "one of 8 parts throttled to 2 MB/s, a mirror fast",
      ours: milliseconds(sides.ours),
      theirs: milliseconds(sides.theirs),
      ratio: `${ratio.toFixed(2)}× the time`,
      goal: `≤ ${THROTTLED_AT_MOST}×`,
      met: ratio <= THROTTLED_AT_MOST,
    };
  } finally {
    await slow.stop();
  }
}
