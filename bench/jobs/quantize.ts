import { rm } from "node:fs/promises";
import {
  type CommandLine,
  commandText,
  isInstalled,
  nodeCommand,
  peakMemory,
  runCapturing,
  timeRun,
} from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, memoryRow, type Row, rateRow } from "../job.ts";
import { makeFloatModel } from "../make/float-model.ts";
import { interleave } from "../measure.ts";

const AT_LEAST = 0.7;
const TYPES = ["q8_0", "q4_0"] as const;
/** llama.cpp's own tool. The source distribution of llama-cpp-python has its source. */
const PROGRAM = process.env["LLAMA_QUANTIZE"] ?? "llama-quantize";

/** 600 MB of float32 to blocks, against llama.cpp on two threads. */
export const quantize: Job = { name: "quantize", title: "quantise 600 MB of F32", run: runQuantize };

async function runQuantize(context: BenchContext): Promise<JobResult> {
  const { workspace, tare, root } = context;
  if (!(await isInstalled(PROGRAM))) {
    const note = "llama-quantize is not installed: build it from llama.cpp and name it in LLAMA_QUANTIZE for its rows";
    return { rows: [], commands: [], notes: [note] };
  }
  const input = await workspace.file("floats.gguf", makeFloatModel);
  const byteLength = await workspace.byteLength(input);
  const out = workspace.path("quantized.gguf");
  const rows: Row[] = [];
  const commands: CommandLine[] = [];
  for (const type of TYPES) {
    const ours = nodeCommand(tare, "quantize", input, out, "-t", type);
    const theirs: CommandLine = { program: PROGRAM, args: ["--pure", input, out, type, "2"] };
    commands.push(ours, theirs);
    const time = async (command: CommandLine): Promise<number> => {
      await rm(out, { force: true });
      return timeRun(command);
    };
    await checkSame(context, { ours, theirs, out });
    const sides = await interleave(
      context.runs,
      () => time(ours),
      () => time(theirs),
    );
    rows.push(rateRow({ job: quantize.name, measure: `F32 bytes to ${type}`, byteLength }, sides, AT_LEAST));
  }
  await rm(out, { force: true });
  const [first] = commands as [CommandLine];
  rows.push(
    memoryRow({ job: quantize.name, measure: "peak resident memory" }, { ours: await peakMemory(first) }, undefined),
  );
  await rm(out, { force: true });
  await workspace.discard("floats.gguf");
  return { rows, commands: commands.map((command) => commandText(command, shortNames(root, workspace))) };
}

/** The two programs must write the same tensors: a wrong answer does not count, however fast. */
async function checkSame(
  { tare, workspace }: BenchContext,
  { ours, theirs, out }: { readonly ours: CommandLine; readonly theirs: CommandLine; readonly out: string },
): Promise<void> {
  await rm(out, { force: true });
  await runCapturing(theirs);
  const kept = workspace.path("theirs.gguf");
  await runCapturing({ program: "mv", args: [out, kept] });
  await runCapturing(ours);
  // Exits with 3 if tensors differ, which fails here.
  await runCapturing(nodeCommand(tare, "diff", out, kept, "--exit-code"));
  await rm(kept);
}
