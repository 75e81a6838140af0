import { shard } from "../../../src/api/move/shard.ts";
import { requireOption } from "../../../src/api/options.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, writeOptions } from "../../host.ts";
import { showConversion } from "../../render/conversion.ts";
import { requireOutput } from "../../targets/outputs.ts";

export const shardCommand = defineCommand({
  positionals: { names: ["IN"], min: 1, max: 1 },
  flags: {
    "max-size": { kind: "size", value: "SIZE", summary: "most tensor data a file may hold: 300M, 5GB, 2GiB" },
    "allow-lossy": { kind: "switch", summary: "go on although something cannot be carried" },
  },
  details: [
    "The format stays the same and no tensor is cut, so a file is larger than SIZE where one tensor is. GGUF gives NAME-00001-of-000NN.gguf, SafeTensors a NAME.safetensors.index.json with its shards. tare merge makes the same file again.",
  ],
  examples: [{ command: "tare shard model.safetensors -o shards --max-size 5GB", says: "files of at most 5 GB" }],
  output: "data",
  remoteOutput: "s3",
  async run(context, { flags, positionals }) {
    const [input = ""] = positionals;
    const output = requireOutput(context, "a directory");
    const { "max-size": maxSize, "allow-lossy": allowLossy } = flags;
    requireOption("shard", "maxSize", maxSize, "a size of at least 1 byte");
    const options = { ...(await writeOptions(context)), maxSize: maxSize ?? 0, allowLossy };
    await showConversion(context, await shard(commandHost(context), input, output, options), output);
    return EXIT.success;
  },
});
