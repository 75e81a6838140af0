import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serveDirectory } from "../../src/platform/node/serve/serve-directory.ts";
import { manyTensors } from "../../test/cli/small-models.ts";
import { NO_CHROMIUM } from "../../test/viewer/chromium.ts";
import { scriptBytes } from "../../test/viewer/script-size.ts";
import { type CommandLine, commandText, nodeCommand, runCapturing, timeRun } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, memoryRow, milliseconds, type Row, rateRow } from "../job.ts";
import { makeGgufModel } from "../make/gguf-model.ts";
import { makeSparseSafetensors } from "../make/sparse-safetensors.ts";
import { interleave, repeat, statisticsOf } from "../measure.ts";
import { undisturbed } from "../stolen-time.ts";
import { ViewerPage } from "../viewer-page.ts";

const JOB = "viewer";
const OVERVIEW_MS = 1000;
const RENDERER_BYTES = 250e6;
const VERIFY_SHARE = 0.5;
const MAX_REQUESTS = 4;
const SCRIPT_BYTES = 60e3;
const FRAME_MS = 50;

/** The page in a real browser: how soon it shows an overview, how fast it verifies, how little it loads. */
export const viewer: Job = { name: JOB, title: "the viewer in Chromium", run: runViewer };

async function runViewer(context: BenchContext): Promise<JobResult> {
  const probe = await ViewerPage.open();
  if (probe === undefined) return { rows: [], commands: [], notes: [NO_CHROMIUM] };
  await probe.close();
  const commands: CommandLine[] = [];
  const notes: string[] = [];
  const rows = [
    ...(await overviewRows(context)),
    ...(await verifyRows(context, commands)),
    ...(await scrollRows(context, notes)),
    ...(await remoteRows(context, commands)),
  ];
  const short = shortNames(context.root, context.workspace);
  return { rows, commands: commands.map((command) => commandText(command, short)), notes };
}

async function fresh<T>(work: (page: ViewerPage) => Promise<T>): Promise<T> {
  const page = await ViewerPage.open();
  if (page === undefined) throw new Error(NO_CHROMIUM);
  try {
    return await work(page);
  } finally {
    await page.close();
  }
}

async function overviewRows({ workspace, runs }: BenchContext): Promise<Row[]> {
  const file = await workspace.file("inspect.gguf", (path) => makeGgufModel(path, "holes"));
  const peaks: number[] = [];
  const scripts: number[] = [];
  const times = await repeat(runs, () =>
    fresh(async (page) => {
      const time = await page.choose(file);
      peaks.push(await page.peakMemory());
      scripts.push(scriptBytes(page.server.served));
      return time;
    }),
  );
  const script = scripts[0] ?? Number.NaN;
  return [
    {
      job: JOB,
      measure: "1.2 GB GGUF with 128 256 tokens chosen → overview on screen",
      ours: milliseconds(times),
      goal: `≤ ${OVERVIEW_MS} ms`,
      met: times.median <= OVERVIEW_MS,
    },
    memoryRow(
      { job: JOB, measure: "peak resident memory of the renderer" },
      { ours: Math.max(...peaks) },
      RENDERER_BYTES,
    ),
    {
      job: JOB,
      measure: "script before that overview, gzip",
      ours: `${(script / 1e3).toFixed(1)} kB`,
      goal: `≤ ${SCRIPT_BYTES / 1e3} kB`,
      met: script <= SCRIPT_BYTES,
    },
  ];
}

async function verifyRows({ workspace, tare, runs }: BenchContext, commands: CommandLine[]): Promise<Row[]> {
  const model = await workspace.file("full.gguf", (path) => makeGgufModel(path, "bytes"));
  const file = workspace.path("viewer.aero");
  const make = nodeCommand(tare, "convert", model, file, "--page-hashes", "--force");
  await runCapturing(make);
  await workspace.discard("full.gguf");
  const theirs = nodeCommand(tare, "verify", file, "--engine", "portable");
  commands.push(make, theirs);
  const byteLength = await workspace.byteLength(file);
  try {
    const sides = await fresh(async (page) => {
      await page.choose(file);
      await page.tab("Layout");
      const ours = (): Promise<number> => page.verify();
      await ours();
      await timeRun(theirs);
      return interleave(runs, ours, () => timeRun(theirs));
    });
    return [
      rateRow(
        {
          job: JOB,
          measure: "verify a 1.2 GB AERO file with pages, against tare verify --engine portable",
          byteLength,
        },
        sides,
        VERIFY_SHARE,
      ),
    ];
  } finally {
    await rm(file, { force: true });
  }
}

async function scrollRows({ workspace, runs }: BenchContext, notes: string[]): Promise<Row[]> {
  const file = await workspace.file("rows.safetensors", (path) => writeFile(path, manyTensors(100_000)));
  const { values, disturbed } = await undisturbed(runs, FRAME_MS, () =>
    fresh(async (page) => {
      await page.choose(file);
      await page.tab("Tensors");
      await page.page.getByRole("grid", { name: "Tensors" }).waitFor();
      await page.page.waitForTimeout(1000);
      return page.page.evaluate<number>(SCROLL);
    }),
  );
  if (disturbed.length > 0) {
    const longest = disturbed.map((frame) => frame.toFixed(1)).join(", ");
    notes.push(
      `The host took the processors away for more than ${FRAME_MS} ms from ${disturbed.length} more runs of the scroll, which do not count, whatever their longest frame was (${longest} ms)`,
    );
  }
  const frames = statisticsOf(values);
  return [
    {
      job: JOB,
      measure: "longest frame of a scripted scroll through 100 000 rows",
      ours: milliseconds(frames),
      goal: `≤ ${FRAME_MS} ms`,
      met: frames.most <= FRAME_MS, // for every frame of every run
    },
  ];
}

/** Runs in the page: scrolls through 300 frames, mostly a little, sometimes far. */
const SCROLL = `(async () => {
  const grid = document.querySelector(".tensors");
  let longest = 0;
  let last = performance.now();
  for (let i = 0; i < 300; i++) {
    grid.scrollTop += i % 50 === 49 ? 500000 : 900;
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  }
  return longest;
})()`;

/** Works on a disk, because ten gigabytes are too much for memory. */
async function remoteRows({ tare }: BenchContext, commands: CommandLine[]): Promise<Row[]> {
  const folder = await mkdtemp(join(process.env["TARE_BENCH_DISK"] ?? tmpdir(), "tare-viewer-set-"));
  try {
    const input = join(folder, "sparse.safetensors");
    await makeSparseSafetensors(input, 10e9);
    const set = join(folder, "set");
    await mkdir(set);
    const make = nodeCommand(tare, "convert", input, join(set, "m.aeroset.json"), "--max-part-shards", "1");
    await runCapturing(make);
    commands.push({ program: make.program, args: make.args.map((word) => word.replaceAll(folder, "$DISK")) });
    await rm(input);
    let requests = 0;
    const server = await serveDirectory(set, { port: 0, cors: ["*"], onRequest: () => requests++ });
    try {
      await fresh(async (page) => {
        await page.page.goto("about:blank");
        await page.page.goto(`${page.server.url}#url=${server.url}/m.aeroset.json`);
        await page.page.locator(".overview").waitFor();
      });
    } finally {
      await server.close(0);
    }
    return [
      {
        job: JOB,
        measure: "requests for the overview of a remote AEROSET of 10 GB",
        ours: String(requests),
        goal: `≤ ${MAX_REQUESTS}`,
        met: requests <= MAX_REQUESTS,
      },
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
