import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Job } from "./job.ts";
import { convert } from "./jobs/convert.ts";
import { convertAero } from "./jobs/convert-aero.ts";
import { inspectGguf } from "./jobs/inspect-gguf.ts";
import { inspectGgufHttp } from "./jobs/inspect-gguf-http.ts";
import { openAero } from "./jobs/open-aero.ts";
import { openSafetensors } from "./jobs/open-safetensors.ts";
import { pull } from "./jobs/pull.ts";
import { scattered } from "./jobs/scattered.ts";
import { shardMerge } from "./jobs/shard-merge.ts";
import { streamSet } from "./jobs/stream-set.ts";
import { throttled } from "./jobs/throttled.ts";
import { verifyAero } from "./jobs/verify-aero.ts";
import { verifyDigest } from "./jobs/verify-digest.ts";
import { describeMachine, type Finished, renderFigures, renderTable, writeFigures } from "./report.ts";
import { openWorkspace } from "./workspace.ts";

/**
 * `npm run bench [-- JOB… --quick --keep]`: measures the build in dist/ beside its peers and prints a table. A full run
 * of every job also rewrites the figures in docs/performance.md. Exits with 1 where a goal is missed.
 */

const JOBS: readonly Job[] = [
  inspectGguf,
  inspectGgufHttp,
  openSafetensors,
  convert,
  verifyDigest,
  shardMerge,
  verifyAero,
  convertAero,
  openAero,
  streamSet,
  pull,
  throttled,
  scattered,
];
const RUNS = 7;
const QUICK_RUNS = 3;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean", default: false }, keep: { type: "boolean", default: false } },
});

function chooseJobs(names: readonly string[]): readonly Job[] {
  const known = JOBS.map((job) => job.name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new Error(`Cannot run "${unknown}": a job must be one of ${known.join(", ")}`);
  }
  return names.length === 0 ? JOBS : JOBS.filter((job) => names.includes(job.name));
}

async function runAll(): Promise<boolean> {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const tare = `${root}dist/bin/tare.js`;
  if (!existsSync(tare)) throw new Error(`Cannot measure: ${tare} must exist; run "npm run build" first`);
  const jobs = chooseJobs(positionals);
  const runs = values.quick ? QUICK_RUNS : RUNS;
  const machine = describeMachine();
  const workspace = await openWorkspace();
  const finished: Finished[] = [];
  process.once("SIGINT", () => {
    workspace.remove();
    process.exit(130);
  });
  try {
    for (const job of jobs) {
      console.error(`running ${job.name}: ${job.title}`);
      const result = await job.run({ workspace, runs, root, tare });
      finished.push({ job, result });
      console.log(`${renderTable(result.rows)}\n`);
      for (const note of result.notes ?? []) console.log(`${note}\n`);
    }
  } finally {
    if (values.keep) console.error(`kept ${workspace.folder}`);
    else workspace.remove();
  }
  const rows = finished.flatMap(({ result }) => result.rows);
  if (jobs.length === JOBS.length && !values.quick) {
    const figures = renderFigures(finished, { machine, runs, folder: workspace.kind });
    await writeFigures(`${root}docs/performance.md`, figures);
    console.error("docs/performance.md rewritten");
  } else {
    console.error("docs/performance.md left alone: only a full run of every job rewrites it");
  }
  return rows.every((row) => row.met !== false);
}

process.exitCode = (await runAll()) ? 0 : 1;
