import { cpus } from "node:os";
import { type CommandLine, commandText, nodeCommand, runCapturing } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, fasterRow, type Job, type JobResult, milliseconds, type Row } from "../job.ts";
import { interleave, type Statistics } from "../measure.ts";
import { MINILM_ONNX, ONNX_NODE_PEER, ONNX_PEERS_MISSING, ONNX_WEB_PEER, onnxPeersInstalled } from "../peers.ts";

/** Batch sizes to try with onnxruntime. The fastest counts. */
const THEIR_BATCHES = [1, 8, 32];

/** Sentence embeddings of all-MiniLM-L6-v2, float32 and eight bits, against onnxruntime in both its forms. */
export const embed: Job = { name: "embed", title: "embed sentences with all-MiniLM-L6-v2", run: runEmbed };

interface Sides {
  readonly ours: Statistics;
  readonly theirs: Statistics;
}

async function runEmbed(context: BenchContext): Promise<JobResult> {
  if (!onnxPeersInstalled()) return { rows: [], commands: [], notes: [ONNX_PEERS_MISSING] };
  const { workspace, tare, root, runs } = context;
  const convert = (...options: readonly string[]) => {
    return async (path: string): Promise<void> => {
      await runCapturing(nodeCommand(tare, "convert", MINILM_ONNX, path, "--allow-lossy", ...options));
    };
  };
  const float = await workspace.file("minilm.weights", convert());
  const int8 = await workspace.file("minilm-int8.weights", convert("--dtype", "i8"));
  const script = `${root}bench/embed.mjs`;
  const commands = new Map<string, CommandLine>();
  const keep = (command: CommandLine): CommandLine => {
    commands.set(command.args.join(" "), command);
    return command;
  };
  const ours = (model: string, task: string, options: object = { threads: 1 }): CommandLine =>
    keep(nodeCommand(script, "ours", `${root}dist`, model, JSON.stringify(options), task));
  const theirs = (peer: string, task: string, options: object = { threads: 1 }): CommandLine =>
    keep(nodeCommand(script, "theirs", peer, MINILM_ONNX, JSON.stringify(options), task));
  const race = (left: CommandLine, right: CommandLine): Promise<Sides> =>
    interleave(
      runs,
      () => measured(left),
      () => measured(right),
    );
  const rows: Row[] = [];
  for (const task of ["16", "128"]) {
    const place = (what: string) => ({ job: embed.name, measure: `${task} tokens, ${what}` });
    const plain = ours(float, task, { threads: 1, kernel: "simd" });
    rows.push(
      fasterRow(place("onnxruntime-web"), await race(ours(float, task), theirs(ONNX_WEB_PEER, task)), 1.5),
      fasterRow(place("onnxruntime-web, no relaxed SIMD"), await race(plain, theirs(ONNX_WEB_PEER, task)), 1.1),
      shareRow(place("onnxruntime-node, one thread"), await race(ours(float, task), theirs(ONNX_NODE_PEER, task)), 0.3),
      fasterRow(place("eight bits against our float32"), await race(ours(int8, task), ours(float, task)), 1.5),
    );
  }
  const threads = cpus().length;
  const batch = await bestBatch((size) => theirs(ONNX_NODE_PEER, "batch", { threads, batch: size }));
  const place = { job: embed.name, measure: `1000 sentences of 8–128 tokens on ${threads} cores, onnxruntime-node` };
  rows.push(shareRow(place, await race(ours(float, "batch", { threads }), batch), 0.3));
  const load = { job: embed.name, measure: "open to first vector, 91 MB file, onnxruntime-node" };
  rows.push(fasterRow(load, await race(ours(float, "load"), theirs(ONNX_NODE_PEER, "load")), 1));
  const names = shortNames(root, workspace);
  return { rows, commands: [...commands.values()].map((command) => commandText(command, names)) };
}

async function measured(command: CommandLine): Promise<number> {
  const { stdout } = await runCapturing(command);
  const ms = Number(stdout);
  if (!(ms > 0)) throw new Error(`Cannot measure: must print milliseconds, found:\n${stdout.slice(0, 500)}`);
  return ms;
}

/** The command with the batch size that is fastest here. */
async function bestBatch(command: (size: number) => CommandLine): Promise<CommandLine> {
  let best: { readonly command: CommandLine; readonly ms: number } | undefined;
  for (const size of THEIR_BATCHES) {
    const candidate = command(size);
    const ms = await measured(candidate);
    if (best === undefined || ms < best.ms) best = { command: candidate, ms };
  }
  return best?.command ?? command(1);
}

/** A row whose goal is a share of the other side's rate. */
function shareRow(place: { readonly job: string; readonly measure: string }, sides: Sides, atLeast: number): Row {
  const ratio = sides.theirs.median / sides.ours.median;
  return {
    ...place,
    ours: milliseconds(sides.ours),
    theirs: milliseconds(sides.theirs),
    ratio: `${ratio.toFixed(2)} of its rate`,
    goal: `≥ ${atLeast}`,
    met: ratio >= atLeast,
  };
}
