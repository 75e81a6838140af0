import { commandText, nodeCommand, peakMemory, runCapturing, timeRun } from "../child.ts";
import { expectText, shortNames } from "../expect.ts";
import { type BenchContext, fasterRow, type Job, type JobResult, memoryRow, milliseconds } from "../job.ts";
import { makeGgufModel } from "../make/gguf-model.ts";
import { MERGE_COUNT, TOKEN_COUNT } from "../make/vocabulary.ts";
import { interleave, repeat } from "../measure.ts";
import { GGUF_PEER_CLI, PEERS_MISSING, peersInstalled } from "../peers.ts";

const PEAK_LIMIT = 130e6;
const TIMES_FASTER = 5;

/** Header of a large GGUF from a local file, from process start to exit. */
export const inspectGguf: Job = {
  name: "inspect-gguf",
  title: "inspect a 1.2 GB GGUF with 128 256 tokens and 280 147 merges",
  run: runInspect,
};

async function runInspect({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const file = await workspace.file("inspect.gguf", (path) => makeGgufModel(path, "holes"));
  const ours = nodeCommand(tare, "inspect", file);
  const theirs = nodeCommand(GGUF_PEER_CLI, file);
  expectText((await runCapturing(ours)).stdout, ["llama", "110"]);
  const memory = { job: inspectGguf.name, measure: "peak resident memory" };
  const time = { job: inspectGguf.name, measure: "wall time with Node's start" };
  const short = shortNames(root, workspace);
  if (!peersInstalled()) {
    const alone = await repeat(runs, () => timeRun(ours));
    return {
      rows: [{ ...time, ours: milliseconds(alone) }, memoryRow(memory, { ours: await peakMemory(ours) }, PEAK_LIMIT)],
      commands: [commandText(ours, short)],
      notes: [PEERS_MISSING],
    };
  }
  expectText((await runCapturing(theirs)).stdout, ["llama", String(TOKEN_COUNT), String(MERGE_COUNT)]);
  const times = await interleave(
    runs,
    () => timeRun(ours),
    () => timeRun(theirs),
  );
  const peaks = { ours: await peakMemory(ours), theirs: await peakMemory(theirs) };
  return {
    rows: [fasterRow(time, times, TIMES_FASTER), memoryRow(memory, peaks, PEAK_LIMIT)],
    commands: [commandText(ours, short), commandText(theirs, short)],
  };
}
