import { printable } from "../../../src/base/text.ts";
import { planFileSidecar, type SidecarPlan } from "../../../src/formats/aerocorrect/sidecar.ts";
import { longestBurst, PARITY_LEVELS, parityGrid } from "../../../src/model/parity/avec.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { checkAbsent, openOutputFile } from "../../output-target.ts";
import { PARITY_FLAG, parseParity } from "../../parity-level.ts";
import { formatShare, formatSize, plural } from "../../render/sizes.ts";
import { burstText, sidecarPath } from "./open-files.ts";

export const correctGenCommand = defineCommand({
  positionals: { names: ["FILE"], min: 1, max: 1 },
  flags: {
    parity: { ...PARITY_FLAG, summary: "5% to 50%, low (7), medium (15, the default), quartile (25) or high (30)" },
  },
  details: [
    "Writes FILE.aerocorrect, or -o: Reed-Solomon parity and a SHA-256 of the file, from which damage is found and healed. Any file of any length will do, and FILE is not changed. An existing sidecar is replaced only with --force.",
    "The file is cut into shards of up to 1 MiB. Of every 13 of them (medium) any 2 may be damaged; a run of more damage in one place than two shards is too much, however little it is of the file. Keep the sidecar on another disk where that matters.",
  ],
  examples: [
    { command: "tare correct gen model.safetensors", says: "15 % of its length, beside it" },
    { command: "tare correct gen model.gguf --parity high -o /backup/model.aerocorrect", says: "more, elsewhere" },
  ],
  output: "data",
  async run(context, { flags, positionals }) {
    const [path = ""] = positionals;
    const sidecar = sidecarPath(path, context.flags.output);
    await checkAbsent(context, sidecar, { sidecars: "written" });
    const percent = flags.parity === undefined ? PARITY_LEVELS.medium : parseParity(flags.parity);
    const dryRun = context.flags["dry-run"] === true;
    const { plan, byteLength } = await generate(context, path, { sidecar, percent, run: dryRun ? "dry" : "real" });
    const bursts = plan.segments.map((segment) => longestBurst(segment.plan));
    const burst = bursts.reduce((least, length) => Math.min(least, length), Number.POSITIVE_INFINITY);
    const shards = countShards(plan);
    await context.show({
      json: () => ({
        file: path,
        sidecar,
        dryRun,
        byteLength,
        sidecarByteLength: plan.byteLength,
        parityPercent: percent,
        segments: plan.segments.length,
        ...shards,
        longestBurst: byteLength === 0 ? 0 : burst,
      }),
      text: () => {
        const share = byteLength === 0 ? "" : `, ${formatShare(plan.byteLength / byteLength)} of the file`;
        const verb = dryRun ? "would write" : "wrote";
        const size = `${formatSize(plan.byteLength)}${share}`;
        return `${verb} ${printable(sidecar)}: ${size}, ${plural(shards.parityShards, "parity shard")}; ${burstText(burst)}`;
      },
    });
    return EXIT.success;
  },
});

interface Work {
  readonly sidecar: string;
  readonly percent: number;
  readonly run: "dry" | "real";
}

async function generate(
  context: Context,
  path: string,
  { sidecar, percent, run }: Work,
): Promise<{ readonly plan: SidecarPlan; readonly byteLength: number }> {
  const [{ openFile, hasFileChanged, changedError }, { parityRunner }, { sidecarMode }, { generateSidecar }] =
    await Promise.all([
      import("../../../src/platform/node/file-source.ts"),
      import("../../../src/platform/node/correct-runner.ts"),
      import("../../../src/platform/node/sidecar-mode.ts"),
      import("../../../src/operations/correct.ts"),
    ]);
  await context.expectHashing(path);
  const { signal } = context;
  const engine = await context.engine();
  const grid = parityGrid(percent);
  const source = await openFile(path, { signal });
  try {
    const { byteLength } = source;
    if (run === "dry") return { plan: planFileSidecar(byteLength, grid), byteLength };
    const sink = await openOutputFile(context, sidecar, await sidecarMode(path));
    const progress = context.progress({ label: "computing parity", total: byteLength });
    try {
      const runner = parityRunner(source, { engine, grid, signal });
      const onProgress = (done: number): void => progress.add(done);
      const plan = await generateSidecar(source, sink, { engine, grid, runner, signal, onProgress });
      if (await hasFileChanged(source)) throw changedError(path);
      await sink.commit();
      return { plan, byteLength };
    } catch (error) {
      await sink.abort();
      throw error;
    } finally {
      progress.end();
    }
  } finally {
    await source.close();
  }
}

function countShards({ segments }: SidecarPlan): { readonly dataShards: number; readonly parityShards: number } {
  let dataShards = 0;
  let parityShards = 0;
  for (const { plan } of segments) {
    dataShards += plan.shardCount;
    parityShards += plan.groupCount * plan.grid.parityShards;
  }
  return { dataShards, parityShards };
}
