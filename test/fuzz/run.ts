import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { FORMATS } from "../../src/formats/registry.ts";
import { loadCorpus } from "./corpus.ts";
import { keepFailure } from "./failures.ts";
import { type Failure, type FuzzReport, inputOf } from "./fuzzer.ts";
import type { WorkerJob } from "./worker.ts";

/** An input that takes this long will not come back. */
const HANG_MS = 10_000;

const USAGE = `npm run fuzz -- [--minutes N] [--seed S] [--format ID] [--jobs K] [--only INDEX]

Damages small model files and opens them: a model or a located error is right, anything else is a failure.
  --minutes N    how long (default 1)
  --seed S       which inputs (default: the time); the same seed gives the same inputs
  --format ID    one format only: ${FORMATS.map(({ id }) => id).join(", ")}
  --jobs K       worker threads (default 1)
  --only INDEX   a single input of that seed, again
`;

interface Settings {
  readonly minutes: number;
  readonly seed: number;
  readonly formats: readonly string[];
  readonly jobs: number;
  readonly only: number | undefined;
}

function parseSettings(): Settings | undefined {
  const { values } = parseArgs({
    options: {
      minutes: { type: "string", default: "1" },
      seed: { type: "string", default: String(Date.now() % 2 ** 31) },
      format: { type: "string" },
      jobs: { type: "string", default: "1" },
      only: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  const known = FORMATS.map(({ id }) => id);
  const formats = values.format === undefined ? known : known.filter((id) => id === values.format);
  const [minutes, seed, jobs] = [Number(values.minutes), Number(values.seed), Number(values.jobs)];
  const only = values.only === undefined ? undefined : Number(values.only);
  const numbersFine = minutes > 0 && Number.isSafeInteger(seed) && Number.isSafeInteger(jobs) && jobs > 0;
  if (values.help === true || formats.length === 0 || !numbersFine || Number.isNaN(only)) return undefined;
  return { minutes, seed, formats, jobs, only };
}

/** Runs one worker to its end; one that hangs is ended and its input reported. */
async function runWorker(number: number, settings: Settings): Promise<FuzzReport> {
  const { seed, formats, jobs, minutes, only } = settings;
  const current = new Int32Array(new SharedArrayBuffer(4)).fill(-1);
  const job: WorkerJob = {
    seed,
    formats,
    first: only ?? number,
    step: jobs,
    until: Date.now() + minutes * 60_000,
    most: only === undefined ? Number.MAX_SAFE_INTEGER : 1,
    current,
  };
  const worker = new Worker(new URL("./start-worker.mjs", import.meta.url), { workerData: job });
  return new Promise((resolve, reject) => {
    const watch = watchProgress(current, (index) => {
      void worker.terminate();
      resolve(failedReport(settings, index, `hang: no answer after ${HANG_MS} ms`));
    });
    worker.on("message", (report: FuzzReport) => {
      clearInterval(watch);
      resolve(report);
    });
    worker.on("error", (error) => {
      clearInterval(watch);
      const index = Atomics.load(current, 0);
      if (index < 0) reject(error);
      else resolve(failedReport(settings, index, `escaped: ${error.stack ?? error.message}`));
    });
  });
}

function watchProgress(current: Int32Array, onHang: (index: number) => void): NodeJS.Timeout {
  let last = -1;
  let since = Date.now();
  const watch = setInterval(() => {
    const now = Atomics.load(current, 0);
    if (now !== last || now < 0) {
      last = now;
      since = Date.now();
    } else if (Date.now() - since > HANG_MS) {
      clearInterval(watch);
      onHang(now);
    }
  }, 500);
  return watch;
}

async function failedReport(settings: Settings, index: number, problem: string): Promise<FuzzReport> {
  const { format, input } = inputOf(await loadCorpus(), index, settings);
  return { count: index, outcomes: new Map(), failures: [{ index, format, problem, input }] };
}

function printReport(reports: readonly FuzzReport[], seconds: number): void {
  const outcomes = new Map<string, number>();
  for (const report of reports) {
    for (const [code, times] of report.outcomes) outcomes.set(code, (outcomes.get(code) ?? 0) + times);
  }
  const count = reports.reduce((sum, report) => sum + report.count, 0);
  const width = String(Math.max(0, ...outcomes.values())).length;
  for (const [code, times] of [...outcomes].sort(([, a], [, b]) => b - a)) {
    console.log(`${String(times).padStart(width)}  ${code}`);
  }
  console.log(`${count} inputs in ${seconds.toFixed(1)} s, ${Math.round(count / seconds)} inputs/s`);
}

function printFailure({ index, format, problem, input }: Failure, { seed }: Settings): void {
  const path = keepFailure({ seed, index, format, problem, input });
  console.error(`FAILED ${format}, input ${index}: ${problem}`);
  console.error(`  kept as ${path}`);
}

const settings = parseSettings();
if (settings === undefined) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  const { seed, formats, jobs } = settings;
  console.log(`fuzzing ${formats.join(", ")} with seed ${seed}`);
  const start = performance.now();
  const reports = await Promise.all(Array.from({ length: jobs }, (_, number) => runWorker(number, settings)));
  printReport(reports, (performance.now() - start) / 1000);
  const failures = reports.flatMap((report) => report.failures);
  for (const failure of failures) printFailure(failure, settings);
  const again = settings.formats.length === 1 ? ` --format ${settings.formats[0]}` : "";
  if (failures.length > 0) console.error(`Again with: npm run fuzz -- --seed ${seed}${again} --only INDEX`);
  process.exitCode = failures.length === 0 ? 0 : 1;
}
