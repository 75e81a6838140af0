import { plural } from "../../../src/base/figures.ts";
import { decodeHex, printable } from "../../../src/base/text.ts";
import { type CorrectRepairResult, repairOn } from "../../../src/platform/node/verbs/correct.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { badValue } from "../../flags/quantities.ts";
import { nodeCommandHost, nodeWriteOptions } from "../../node-host.ts";

export const correctRepairCommand = defineCommand({
  positionals: { names: ["FILE"], min: 1, max: 1 },
  flags: {
    sidecar: { kind: "path", value: "FILE", summary: "the sidecar, where it is not FILE.aerocorrect" },
    "expect-sha256": { kind: "text", value: "HEX", summary: "refuse a sidecar that is not for this content" },
  },
  details: [
    "Heals a file: the damaged shards are computed from the others and parity, and SHA-256 of the whole is compared before the first byte is written. What cannot be healed is left as it is (exit 5). A file that was cut short, or to which something was appended, is brought back to its length.",
    "Only damaged shards are written, in place, each byte of them the right one: an interruption leaves a file that is less damaged. With -o OUT the healed file goes there and FILE stays as it is.",
    "A sidecar restores the file that it was made of, no matter who made it. If someone else could have put it there, say with --expect-sha256 what the file must be.",
  ],
  examples: [
    { command: "tare correct repair model.safetensors", says: "in place" },
    { command: "tare correct repair model.gguf --expect-sha256 $(cat model.sha256)", says: "and nothing else" },
  ],
  output: "data",
  async run(context, { flags, positionals: [path = ""] }) {
    const { sidecar, "expect-sha256": expectSha256 } = flags;
    if (expectSha256 !== undefined) checkSha256(expectSha256);
    const options = { ...(await nodeWriteOptions(context)), sidecar, expectSha256, output: context.flags.output };
    const result = await repairOn(await nodeCommandHost(context), path, options);
    await context.tell({ json: () => result, text: () => summary(result) });
    return EXIT.success;
  },
});

function summary({ file, state, recoveredShards, byteLength, dryRun }: CorrectRepairResult): string {
  if (state === "intact") return `${printable(file)}: nothing to repair, it is the file that was protected`;
  const verb = dryRun ? "would repair" : "repaired";
  return `${verb} ${printable(file)}: ${plural(recoveredShards, "shard")} recovered, ${byteLength} bytes as they were`;
}

function checkSha256(text: string): void {
  if (decodeHex(text.toLowerCase())?.byteLength !== 32) throw badValue("--expect-sha256", text, "64 hex digits");
}
