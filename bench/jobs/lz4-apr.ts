import { fileURLToPath } from "node:url";
import { type CommandLine, commandText, isInstalled, nodeCommand, runCapturing, timeRun } from "../child.ts";
import { expectText, shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, rateRow } from "../job.ts";
import { makeCompressible } from "../make/compressible.ts";
import { interleave } from "../measure.ts";

const AT_LEAST = 0.8;
const TENSORS = 128;
const TENSOR_BYTES = 16 << 20;
const READER = fileURLToPath(new URL("../read-model.mjs", import.meta.url));

/** Decodes every tensor of a compressed APR: about 1 GB in the file, 2.1 GB decoded. */
export const lz4Apr: Job = { name: "lz4-apr", title: "decode a compressed APR of about 1 GB", run: runLz4 };

async function runLz4({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  if (!(await isInstalled("lz4"))) {
    return { rows: [], commands: [], notes: ["lz4 is not installed: install the Debian package lz4 for its row"] };
  }
  const raw = await workspace.file("raw.safetensors", (path) => makeCompressible(path, TENSORS, TENSOR_BYTES));
  const [apr, framed] = [workspace.path("model.apr"), workspace.path("raw.lz4")];
  const make = nodeCommand(tare, "convert", raw, apr, "--compress", "lz4");
  await runCapturing(make);
  await runCapturing({ program: "lz4", args: ["-q", "-f", raw, framed] });
  const packed = await workspace.byteLength(apr);
  const byteLength = TENSORS * TENSOR_BYTES;
  const ours = nodeCommand(READER, `${root}dist`, apr);
  const theirs: CommandLine = { program: "lz4", args: ["-d", "-c", framed] };
  expectText((await runCapturing(ours)).stdout, [`"bytes":${byteLength}`]);
  const inside = async (): Promise<number> =>
    (JSON.parse((await runCapturing(ours)).stdout) as { readonly milliseconds: number }).milliseconds;
  await timeRun(theirs);
  const sides = await interleave(runs, inside, () => timeRun(theirs));
  await workspace.discard("raw.safetensors");
  const measure = `raw bytes a second, ${(packed / 1e9).toFixed(2)} GB in the file, without Node's start`;
  const short = shortNames(root, workspace);
  return {
    rows: [rateRow({ job: lz4Apr.name, measure, byteLength }, sides, AT_LEAST)],
    commands: [make, ours, theirs].map((command) => commandText(command, short)),
  };
}
