import { UsageError } from "../../src/base/errors.ts";
import { defineCommand } from "../command.ts";
import { allowLossy, runConversion } from "../conversion.ts";
import { EXIT } from "../exit-codes.ts";
import { outputBaseName } from "../output-name.ts";
import { pathIn, requireOutput } from "../output-target.ts";

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
    const directory = requireOutput(context, "a directory");
    const maxShardBytes = flags["max-size"];
    if (maxShardBytes === undefined || maxShardBytes === 0) {
      throw new UsageError("usage/arguments", "Cannot shard without --max-size SIZE, of at least 1 byte", {
        source: "command line",
      });
    }
    const [input = ""] = positionals;
    const opened = await context.open(input);
    const name = outputBaseName(opened.label, opened.format);
    await runConversion(context, {
      opened,
      target: opened.format,
      path: pathIn(directory, name),
      options: { name, maxShardBytes, ...allowLossy(flags["allow-lossy"]) },
    });
    return EXIT.success;
  },
});
