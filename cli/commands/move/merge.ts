import { merge } from "../../../src/api/move/shard.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, writeOptions } from "../../host.ts";
import { showConversion } from "../../render/conversion.ts";
import { requireOutput } from "../../targets/outputs.ts";

export const mergeCommand = defineCommand({
  positionals: { names: ["FIRST"], min: 1, max: 1 },
  flags: {
    "allow-lossy": { kind: "switch", summary: "go on although something cannot be carried" },
  },
  details: ["FIRST is the index, the first of the numbered files, or the directory that holds them."],
  examples: [
    { command: "tare merge shards/model.safetensors.index.json -o model.safetensors", says: "SafeTensors shards" },
    { command: "tare merge model-00001-of-00003.gguf -o model.gguf", says: "llama.cpp splits" },
  ],
  output: "data",
  vaultOutput: "single file",
  remoteOutput: "s3",
  async run(context, { flags, positionals }) {
    const [input = ""] = positionals;
    const output = requireOutput(context, "the file to write");
    const options = { ...(await writeOptions(context)), allowLossy: flags["allow-lossy"] };
    await showConversion(context, await merge(commandHost(context), input, output, options), output);
    return EXIT.success;
  },
});
