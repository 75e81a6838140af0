import { writeFile } from "node:fs/promises";
import { type CommandLine, commandText, isInstalled, nodeCommand, runCapturing } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, fasterRow, type Job, type JobResult, type Row } from "../job.ts";
import { makeScattered, SMALL_BYTES, SMALL_COUNT, SMALL_PREFIX } from "../make/scattered-models.ts";
import { interleave } from "../measure.ts";
import { NGINX_MISSING, Nginx } from "../nginx.ts";
import { type PlainRange, plainCommand, readerCommand, runRemote } from "../remote-run.ts";

const AT_LEAST = 2;
const THEIR_CONCURRENCY = 32;

/** The gap between two tensors: one that costs less than a round trip, and one that costs much more. */
const GAPS = [
  { name: "192 KiB apart", gapBytes: 192 << 10, atLeast: AT_LEAST },
  { name: "2 MiB apart", gapBytes: 2 << 20, atLeast: undefined },
] as const;

/** 512 tensors of 64 KiB out of a larger file, against one request for each, 32 at a time. */
export const scattered: Job = {
  name: "scattered",
  title: "prefetch of 512 scattered tensors of 64 KiB over HTTP",
  run: runScattered,
};

async function runScattered(context: BenchContext): Promise<JobResult> {
  if (!(await isInstalled("nginx"))) return { rows: [], commands: [], notes: [NGINX_MISSING] };
  const rows: Row[] = [];
  const commands: CommandLine[] = [];
  for (const kind of GAPS) rows.push(await compare(context, kind, commands));
  const short = shortNames(context.root, context.workspace);
  return { rows, commands: commands.map((command) => commandText(command, short)) };
}

async function compare(
  context: BenchContext,
  { name, gapBytes, atLeast }: (typeof GAPS)[number],
  commands: CommandLine[],
): Promise<Row> {
  const { workspace, tare, runs } = context;
  const file = `scattered-${gapBytes >> 10}.aero`;
  await workspace.file(file, async (path) => {
    const plain = `${path}.safetensors`;
    await makeScattered(plain, gapBytes);
    await runCapturing(nodeCommand(tare, "convert", plain, path, "--tensor-hashes"));
    await workspace.discard(`${file}.safetensors`);
  });
  const server = await Nginx.start({ folder: workspace.folder, scratch: workspace.path("nginx-scattered") });
  try {
    const url = `${server.origin}/${file}`;
    const ranges = workspace.path("scattered.json");
    await writeFile(ranges, JSON.stringify(await smallRanges(context, workspace.path(file), url)));
    const ours = readerCommand(context, "prefetch", url, SMALL_PREFIX);
    const theirs = plainCommand(THEIR_CONCURRENCY, ranges);
    const total = SMALL_COUNT * SMALL_BYTES;
    const run = async (command: CommandLine): Promise<number> => (await runRemote(command, total)).milliseconds;
    await run(ours);
    const sides = await interleave(
      runs,
      () => run(ours),
      () => run(theirs),
    );
    commands.push(ours, theirs);
    return fasterRow({ job: scattered.name, measure: `${name}, checked by tensor digests` }, sides, atLeast);
  } finally {
    await server.stop();
    await workspace.discard(file);
  }
}

/** The offsets of the tensors, which any program can get. */
async function smallRanges({ tare }: BenchContext, path: string, url: string): Promise<PlainRange[]> {
  const listed = JSON.parse((await runCapturing(nodeCommand(tare, "ls", path, "--json"))).stdout) as {
    readonly tensors: readonly { readonly name: string; readonly offset: number; readonly byteLength: number }[];
  };
  return listed.tensors
    .filter(({ name }) => name.startsWith(SMALL_PREFIX))
    .map(({ offset, byteLength }) => [url, offset, byteLength]);
}
