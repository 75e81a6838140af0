import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Job } from "./job.ts";
import { convert } from "./jobs/convert.ts";
import { convertAero } from "./jobs/convert-aero.ts";
import { dequantize } from "./jobs/dequantize.ts";
import { embed } from "./jobs/embed.ts";
import { inspectAprHttp } from "./jobs/inspect-apr-http.ts";
import { inspectGguf } from "./jobs/inspect-gguf.ts";
import { inspectGgufHttp } from "./jobs/inspect-gguf-http.ts";
import { lz4Apr } from "./jobs/lz4-apr.ts";
import { openAero } from "./jobs/open-aero.ts";
import { openSafetensors } from "./jobs/open-safetensors.ts";
import { parity } from "./jobs/parity.ts";
import { parityReference } from "./jobs/parity-reference.ts";
import { parityRepair } from "./jobs/parity-repair.ts";
import { pull } from "./jobs/pull.ts";
import { quantize } from "./jobs/quantize.ts";
import { scattered } from "./jobs/scattered.ts";
import { shardMerge } from "./jobs/shard-merge.ts";
import { streamSet } from "./jobs/stream-set.ts";
import { streamStore } from "./jobs/stream-store.ts";
import { throttled } from "./jobs/throttled.ts";
import { tokenizer } from "./jobs/tokenizer.ts";
import { unlock } from "./jobs/unlock.ts";
import { vaultLarge } from "./jobs/vault-large.ts";
import { vaultTree } from "./jobs/vault-tree.ts";
import { vaultWeights } from "./jobs/vault-weights.ts";
import { verifyAero } from "./jobs/verify-aero.ts";
import { verifyDigest } from "./jobs/verify-digest.ts";
import { viewer } from "./jobs/viewer.ts";
import { describeMachine, renderCommands, renderFigures, renderTable, writeFigures } from "./report.ts";
import { mergeResults, type Recorded, readResults, writeResults } from "./results.ts";
import { openWorkspace } from "./workspace.ts";

/**
 * `npm run bench [-- JOB… --runs N --quick --keep]`: measures the build in dist/ side by side with its peers and prints
 * a table. With five runs or more, keeps the result in results.json, and rewrites the figures in docs/performance.md
 * and the command lines in bench/NOTES.md. Exits with 1 for a missed goal.
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
  streamStore,
  pull,
  throttled,
  scattered,
  lz4Apr,
  quantize,
  dequantize,
  inspectAprHttp,
  vaultWeights,
  vaultTree,
  vaultLarge,
  unlock,
  parity,
  parityReference,
  parityRepair,
  tokenizer,
  embed,
  viewer,
];
const RESULTS = fileURLToPath(new URL("./results.json", import.meta.url));
const RUNS = 7;
const QUICK_RUNS = 3;
/** Fewer runs say too little to be recorded. */
const LEAST_RUNS = 5;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean", default: false },
    keep: { type: "boolean", default: false },
    runs: { type: "string" },
  },
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
  const runs = values.quick ? QUICK_RUNS : Number(values.runs ?? RUNS);
  const workspace = await openWorkspace();
  const finished: Recorded[] = [];
  process.once("SIGINT", () => {
    workspace.remove();
    process.exit(130);
  });
  try {
    for (const job of jobs) {
      console.error(`running ${job.name}: ${job.title}`);
      const { name, title } = job;
      const machine = describeMachine();
      const result = await job.run({ workspace, runs, root, tare });
      finished.push({ name, title, machine, runs, folder: workspace.kind, ...result });
      console.log(`${renderTable(result.rows)}\n`);
      for (const note of result.notes ?? []) console.log(`${note}\n`);
    }
  } finally {
    if (values.keep) console.error(`kept ${workspace.folder}`);
    else workspace.remove();
  }
  const rows = finished.flatMap((result) => result.rows);
  if (runs < LEAST_RUNS) {
    console.error(`docs/performance.md and bench/NOTES.md left alone: they take at least ${LEAST_RUNS} runs`);
    return rows.every((row) => row.met !== false);
  }
  const order = JOBS.map((job) => job.name);
  const results = mergeResults(await readResults(RESULTS), finished, order);
  await writeResults(RESULTS, results);
  await writeFigures(`${root}docs/performance.md`, renderFigures(results));
  await writeFigures(`${root}bench/NOTES.md`, renderCommands(results));
  console.error("docs/performance.md and bench/NOTES.md rewritten");
  return rows.every((row) => row.met !== false);
}

process.exitCode = (await runAll()) ? 0 : 1;
