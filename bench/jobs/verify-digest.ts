import {
  type CommandLine,
  commandText,
  isInstalled,
  nodeCommand,
  peakMemory,
  runCapturing,
  timeRun,
} from "../child.ts";
import { expectText, shortNames } from "../expect.ts";
import { type BenchContext, type Job, type JobResult, memoryRow, type Row, rate, rateRow } from "../job.ts";
import { makeTwoGigabytes } from "../make/safetensors-models.ts";
import { interleave, repeat } from "../measure.ts";

const SHARE_OF_SHA256SUM = 0.9;

interface Rival {
  readonly command: CommandLine;
  readonly measure: string;
  readonly atLeast: number | undefined;
  readonly missing: string;
}

/** A SHA-256 of every tensor, against one SHA-256 of the whole file. */
export const verifyDigest: Job = {
  name: "verify-digest",
  title: "verify --digest sha256 of every tensor of a 2 GB SafeTensors file",
  run: runVerify,
};

async function runVerify({ workspace, runs, tare, root }: BenchContext): Promise<JobResult> {
  const file = await workspace.file("two.safetensors", makeTwoGigabytes);
  const byteLength = await workspace.byteLength(file);
  const digest = (...flags: string[]) => nodeCommand(tare, "verify", "--digest", "sha256", ...flags, file);
  const ours = digest();
  expectText((await runCapturing(digest("--json"))).stdout, ["true", "model.layers.31.self_attn.v_proj.weight"]);
  const rows: Row[] = [];
  const notes: string[] = [];
  const commands = [ours];
  const place = (measure: string) => ({ job: verifyDigest.name, measure, byteLength });
  for (const rival of rivalsFor(file)) {
    if (!(await isInstalled(rival.command.program))) {
      notes.push(rival.missing);
      continue;
    }
    commands.push(rival.command);
    await timeRun(rival.command);
    const times = await interleave(
      runs,
      () => timeRun(ours),
      () => timeRun(rival.command),
    );
    rows.push(rateRow(place(rival.measure), times, rival.atLeast));
  }
  const one = await repeat(Math.min(runs, 3), () => timeRun(digest("--concurrency", "1")));
  rows.push({ job: verifyDigest.name, measure: "one tensor at a time", ours: rate(byteLength, one) });
  const peak = { ours: await peakMemory(ours) };
  rows.push(memoryRow({ job: verifyDigest.name, measure: "peak resident memory" }, peak, undefined));
  const short = shortNames(root, workspace);
  return { rows, commands: commands.map((command) => commandText(command, short)), notes };
}

/**
 * The promise is about sha256sum. If that is built without the processor's SHA instructions, openssl is harder to beat.
 */
function rivalsFor(file: string): readonly Rival[] {
  return [
    {
      command: { program: "sha256sum", args: [file] },
      measure: "against sha256sum",
      atLeast: SHARE_OF_SHA256SUM,
      missing: "sha256sum is not installed: get GNU coreutils for its row",
    },
    {
      command: { program: "openssl", args: ["dgst", "-sha256", file] },
      measure: "against openssl dgst",
      atLeast: undefined,
      missing: "openssl is not installed: its row is left out",
    },
  ];
}
