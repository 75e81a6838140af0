import { readdir } from "node:fs/promises";
import { commandText, nodeCommand, timeRun } from "../child.ts";
import { sameBytes, shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, type Row, rate } from "../job.ts";
import { makeGgufModel } from "../make/gguf-model.ts";
import { makeTwoGigabytes } from "../make/safetensors-models.ts";
import { statisticsOf } from "../measure.ts";

const MAX_SIZE = "300MB";

/** merge(shard(x)) must give x again, bit for bit, for files that tare did not write. */
export const shardMerge: Job = {
  name: "shard-merge",
  title: `merge(shard(x)), shards of at most ${MAX_SIZE}`,
  async run(context) {
    const gguf = await context.workspace.file("whole.gguf", (path) => makeGgufModel(path, "bytes"));
    const first = await roundTrip(context, gguf, "gguf");
    await context.workspace.discard("whole.gguf");
    const safetensors = await context.workspace.file("two.safetensors", makeTwoGigabytes);
    const second = await roundTrip(context, safetensors, "safetensors");
    return {
      rows: [...first.rows, ...second.rows],
      commands: [...first.commands, ...second.commands],
    };
  },
};

async function roundTrip(context: BenchContext, input: string, extension: string): Promise<JobResult> {
  const { workspace, tare, root } = context;
  const byteLength = await workspace.byteLength(input);
  const folder = workspace.path(`shards-${extension}`);
  const output = workspace.path(`merged.${extension}`);
  const shard = nodeCommand(tare, "shard", input, "-o", folder, "--max-size", MAX_SIZE);
  const shardTime = await timeRun(shard);
  const merge = nodeCommand(tare, "merge", await firstOf(folder), "-o", output);
  const mergeTime = await timeRun(merge);
  const identical = await sameBytes(input, output);
  await workspace.discard(`shards-${extension}`);
  await workspace.discard(`merged.${extension}`);
  const place = (measure: string) => ({ job: shardMerge.name, measure: `${extension}: ${measure}` });
  const rows: Row[] = [
    {
      ...place(`${(byteLength / 1e9).toFixed(1)} GB there and back`),
      ours: identical ? "identical" : "different",
      theirs: "x",
      goal: "byte-identical",
      met: identical,
    },
    { ...place("shard, one run"), ours: rate(byteLength, statisticsOf([shardTime])) },
    { ...place("merge, one run"), ours: rate(byteLength, statisticsOf([mergeTime])) },
  ];
  return { rows, commands: [shard, merge].map((command) => commandText(command, shortNames(root, workspace))) };
}

/** The index of a SafeTensors set, or the first GGUF shard. */
async function firstOf(folder: string): Promise<string> {
  const names = (await readdir(folder)).sort();
  const first = names.find((name) => name.endsWith(".index.json")) ?? names[0];
  if (first === undefined) throw new Error(`Cannot measure: shard must write files to ${folder}, found none`);
  return `${folder}/${first}`;
}
