import { formatShare, formatSize, plural } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { type CorrectGenerateResult, generateOn } from "../../../src/platform/node/verbs/correct.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { PARITY_FLAG, parseParity } from "../../flags/quantities.ts";
import { nodeCommandHost, nodeWriteOptions } from "../../node-host.ts";
import { burstText } from "./verify.ts";

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
  async run(context, { flags, positionals: [path = ""] }) {
    const parity = flags.parity === undefined ? undefined : (`${parseParity(flags.parity)}%` as const);
    const options = { ...(await nodeWriteOptions(context)), parity, output: context.flags.output };
    const result = await generateOn(await nodeCommandHost(context), path, options);
    await context.tell({ json: () => result, text: () => summary(result) });
    return EXIT.success;
  },
});

function summary({
  sidecar,
  dryRun,
  byteLength,
  sidecarByteLength,
  parityShards,
  longestBurst,
}: CorrectGenerateResult): string {
  const share = byteLength === 0 ? "" : `, ${formatShare(sidecarByteLength, byteLength)} of the file`;
  const verb = dryRun ? "would write" : "wrote";
  const size = `${formatSize(sidecarByteLength)}${share}`;
  return `${verb} ${printable(sidecar)}: ${size}, ${plural(parityShards, "parity shard")}; ${burstText(longestBurst)}`;
}
