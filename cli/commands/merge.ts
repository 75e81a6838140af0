import { UsageError } from "../../src/base/errors.ts";
import { formatForName } from "../../src/formats/registry.ts";
import { defineCommand } from "../command.ts";
import { allowLossy, runConversion } from "../conversion.ts";
import { EXIT } from "../exit-codes.ts";
import { outputBaseName } from "../output-name.ts";
import { checkAbsent, outputFileName, requireOutput } from "../output-target.ts";

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
    const path = requireOutput(context, "the file to write");
    if (path !== "-") await checkAbsent(context, path, { inputs: "rewritten" });
    const [input = ""] = positionals;
    const opened = await context.open(input);
    const { format } = opened;
    const fileName = await outputFileName(path);
    const named = formatForName(fileName);
    if (named !== undefined && named.id !== format.id) {
      throw new UsageError(
        "usage/output-format",
        `Cannot merge ${format.name} shards into a ${named.name} file`,
        {
          source: path,
        },
        { hint: `Merge to *${format.extensions[0]}, or use: tare convert ${input} ${path}` },
      );
    }
    const name = path === "-" ? outputBaseName(opened.label, format) : fileName;
    await runConversion(context, {
      opened,
      target: format,
      path,
      options: { name, ...allowLossy(flags["allow-lossy"]) },
    });
    return EXIT.success;
  },
});
