import { mkdir } from "node:fs/promises";
import { commandText, isInstalled, nodeCommand, runCapturing } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, memoryRow, rateRow } from "../job.ts";
import { makeFourGigabytes } from "../make/safetensors-models.ts";
import { interleave } from "../measure.ts";
import { NGINX_MISSING, Nginx } from "../nginx.ts";
import { plainCommand, readerCommand, runRemote, watched, writeFolderRanges } from "../remote-run.ts";

const AT_LEAST = 0.85;
const MAX_BUFFERS = 64 << 20;
const CONCURRENCIES = [1, 2, 4, 8];
/** How much a program without a library would request at a time. */
const PIECE_BYTES = 16 << 20;
const SET_NAME = "model.aeroset.json";

/** Every byte of a remote set, checked page by page, against plain fetch of the same bytes. */
export const streamSet: Job = {
  name: "stream-set",
  title: "stream a 4 GB AEROSET over HTTP, verified",
  run: runStreamSet,
};

/** Makes the set in 8 parts, once for all jobs that read it. Returns the name of its folder. */
export async function makeRemoteSet({ workspace, tare }: BenchContext): Promise<string> {
  return workspace.file("remote-set", async (folder) => {
    const input = await workspace.file("four.safetensors", makeFourGigabytes);
    await mkdir(folder, { recursive: true });
    const cut = ["--max-shard-size", "512MiB", "--max-part-shards", "1"];
    await runCapturing(nodeCommand(tare, "convert", input, `${folder}/${SET_NAME}`, ...cut));
    await workspace.discard("four.safetensors");
  });
}

async function runStreamSet(context: BenchContext): Promise<JobResult> {
  const { workspace, runs, root } = context;
  if (!(await isInstalled("nginx"))) return { rows: [], commands: [], notes: [NGINX_MISSING] };
  const folder = await makeRemoteSet(context);
  const server = await Nginx.start({ folder, scratch: workspace.path("nginx-set") });
  try {
    const ranges = workspace.path("stream-set.json");
    const total = await writeFolderRanges(folder, `${server.origin}/`, { pieceBytes: PIECE_BYTES, into: ranges });
    const ours = readerCommand(context, "stream", `${server.origin}/${SET_NAME}`);
    // The weights without the tables are at least 99 % of the files.
    const { buffers = Number.NaN } = await runRemote(watched(ours), 0.99 * total);
    const best = await bestConcurrency(ranges, total);
    const theirs = plainCommand(best, ranges);
    const sides = await interleave(
      runs,
      async () => (await runRemote(ours, 0.99 * total)).milliseconds,
      async () => (await runRemote(theirs, total)).milliseconds,
    );
    const place = { job: streamSet.name, measure: `against plain fetch, ${best} at a time`, byteLength: total };
    return {
      rows: [
        rateRow(place, sides, AT_LEAST),
        memoryRow({ job: streamSet.name, measure: "most bytes in live buffers" }, { ours: buffers }, MAX_BUFFERS),
      ],
      commands: [ours, theirs].map((command) => commandText(command, shortNames(root, workspace))),
    };
  } finally {
    await server.stop();
  }
}

/** One run each. Ours is compared with the fastest. */
async function bestConcurrency(ranges: string, total: number): Promise<number> {
  const times = new Map<number, number>();
  for (const concurrency of CONCURRENCIES) {
    times.set(concurrency, (await runRemote(plainCommand(concurrency, ranges), total)).milliseconds);
  }
  return [...times].reduce((best, next) => (next[1] < best[1] ? next : best))[0];
}
