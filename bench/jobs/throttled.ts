import { readdir } from "node:fs/promises";
import { commandText, isInstalled } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, milliseconds } from "../job.ts";
import { interleave } from "../measure.ts";
import { NGINX_MISSING, Nginx } from "../nginx.ts";
import { readerCommand, runRemote } from "../remote-run.ts";
import { makeRemoteSet } from "./stream-set.ts";

const AT_MOST = 1.3;
const SLOW_RATE = 2_000_000;

/** The first address serves one part of eight at 2 MB/s; another mirror is fast. */
export const throttled: Job = {
  name: "throttled",
  title: "one of 8 parts throttled to 2 MB/s, a second mirror fast",
  run: runThrottled,
};

async function runThrottled(context: BenchContext): Promise<JobResult> {
  const { workspace, runs, root } = context;
  if (!(await isInstalled("nginx"))) return { rows: [], commands: [], notes: [NGINX_MISSING] };
  const folder = await makeRemoteSet(context);
  const parts = (await readdir(folder)).filter((name) => /part.*\.aero$/.test(name)).sort();
  const [slowPart = ""] = parts.slice(2);
  const throttle = { suffix: slowPart, bytesPerSecond: SLOW_RATE };
  const fast = await Nginx.start({ folder, scratch: workspace.path("nginx-fast") });
  const slow = await Nginx.start({ folder, scratch: workspace.path("nginx-slow"), throttle });
  try {
    const read = (first: Nginx) => readerCommand(context, "mirrors", `${first.origin}/`, `${fast.origin}/`, ...parts);
    const [ours, plain] = [read(slow), read(fast)];
    const { bytes } = await runRemote(plain, 1);
    const sides = await interleave(
      runs,
      async () => (await runRemote(ours, bytes)).milliseconds,
      async () => (await runRemote(plain, bytes)).milliseconds,
    );
    const ratio = sides.ours.median / sides.theirs.median;
    const row = {
      job: throttled.name,
      measure: "time with the slow part, against the same without",
      ours: milliseconds(sides.ours),
      theirs: milliseconds(sides.theirs),
      ratio: `${ratio.toFixed(2)}× the time`,
      goal: `≤ ${AT_MOST}×`,
      met: ratio <= AT_MOST,
    };
    return { rows: [row], commands: [commandText(ours, shortNames(root, workspace))] };
  } finally {
    await Promise.all([fast.stop(), slow.stop()]);
    await workspace.discard("remote-set");
  }
}
