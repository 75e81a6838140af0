import { commandText, nodeCommand, runCapturing } from "../child.ts";
import { shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, type Row, timesRow } from "../job.ts";
import { makeHundredThousand } from "../make/safetensors-models.ts";
import { type Statistics, statisticsOf } from "../measure.ts";

const MOST_TIMES = 2;
/** Rounds that do not count: they warm up the compiler. */
const WARM_UP = 2;

interface Times {
  readonly parse: readonly number[];
  readonly read: readonly number[];
  readonly open: readonly number[];
}

/** The cost of all checks, compared with the cheapest way to read the header. */
export const openSafetensors: Job = {
  name: "open-safetensors",
  title: "open a SafeTensors file of 100 000 tensors, all checks on",
  run: runOpen,
};

async function runOpen({ workspace, runs, root }: BenchContext): Promise<JobResult> {
  const file = await workspace.file("many.safetensors", makeHundredThousand);
  const script = `${root}bench/open-safetensors.mjs`;
  const warm = withGc(nodeCommand(script, file, String(WARM_UP + runs)));
  const times = parseTimes((await runCapturing(warm)).stdout);
  const steady = (values: readonly number[]) => statisticsOf(values.slice(WARM_UP));
  const once = withGc(nodeCommand(script, file, "1"));
  const first = { parse: [] as number[], open: [] as number[] };
  for (let run = 0; run < runs; run++) {
    const { parse, open } = parseTimes((await runCapturing(once)).stdout);
    first.parse.push(...parse);
    first.open.push(...open);
  }
  const open = steady(times.open);
  return {
    rows: [
      slowerRow("openModel, against JSON.parse of the text alone", open, steady(times.parse), MOST_TIMES),
      slowerRow("the same, against reading, decoding and JSON.parse", open, steady(times.read), undefined),
      slowerRow(
        "first time in a fresh process, after JSON.parse",
        statisticsOf(first.open),
        statisticsOf(first.parse),
        undefined,
      ),
    ],
    commands: [commandText(warm, shortNames(root, workspace))],
  };
}

function withGc(command: { program: string; args: readonly string[] }): { program: string; args: readonly string[] } {
  return { program: command.program, args: ["--expose-gc", ...command.args] };
}

function parseTimes(stdout: string): Times {
  return JSON.parse(stdout) as Times;
}

function slowerRow(measure: string, ours: Statistics, theirs: Statistics, atMost: number | undefined): Row {
  return timesRow({ job: openSafetensors.name, measure }, { ours, theirs }, atMost);
}
