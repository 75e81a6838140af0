import { fileURLToPath } from "node:url";
import { type CommandLine, commandText, nodeCommand, runCapturing } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, rateRow } from "../job.ts";
import { interleave } from "../measure.ts";

const AT_LEAST = 3;
/** 64 MB of floats: larger than every cache, as tensors are. */
const BLOCKS = 1 << 19;
const SECONDS = 1;
const OURS = fileURLToPath(new URL("../dequantize.mjs", import.meta.url));
const THEIRS = fileURLToPath(new URL("../dequantize.py", import.meta.url));

/** Q4_0 to float32 in memory, into a buffer that is reused. */
export const dequantize: Job = { name: "dequantize", title: "decode Q4_0 blocks in memory", run: runDequantize };

async function runDequantize({ runs, root, workspace }: BenchContext): Promise<JobResult> {
  const ours = nodeCommand(OURS, `${root}dist`, String(BLOCKS), String(SECONDS));
  const theirs: CommandLine = { program: "python3", args: [THEIRS, String(BLOCKS), String(SECONDS)] };
  const hasPeer = await runCapturing(theirs).then(
    () => true,
    () => false,
  );
  if (!hasPeer) {
    return { rows: [], commands: [], notes: ["the gguf package is not installed: pip install gguf for its row"] };
  }
  // The programs print a rate; the table needs the time for a number of bytes.
  const byteLength = 1e9;
  const time = async (command: CommandLine): Promise<number> =>
    (byteLength / Number((await runCapturing(command)).stdout)) * 1000;
  const sides = await interleave(
    runs,
    () => time(ours),
    () => time(theirs),
  );
  const place = { job: dequantize.name, measure: "float32 bytes, against the gguf package", byteLength };
  return {
    rows: [rateRow(place, sides, AT_LEAST)],
    commands: [ours, theirs].map((command) => commandText(command, shortNames(root, workspace))),
  };
}
