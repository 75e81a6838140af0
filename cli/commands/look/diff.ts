import { type DiffResult, diff } from "../../../src/api/look/diff.ts";
import { defineCommand } from "../../command.ts";
import { EXIT, type ExitCode } from "../../exit-codes.ts";
import { commandHost, readOptions } from "../../host.ts";
import { renderDiff } from "../../render/look/differences.ts";

export const diffCommand = defineCommand({
  positionals: { names: ["A", "B"], min: 2, max: 2 },
  flags: {
    stats: { kind: "switch", summary: "measure how far changed tensors are apart" },
    tolerance: { kind: "number", value: "E", summary: "values that differ by at most E are equal" },
    metadata: { kind: "switch", summary: "metadata differences count too" },
    rename: {
      kind: "choice",
      choices: ["hf", "none"],
      summary: "hf compares both as convert --rename hf would write them",
    },
    "exit-code": { kind: "switch", summary: "exit 3 where the two differ" },
  },
  details: [
    "Tensors are compared by name, bit for bit, whatever format the two files have; two vaults by their entries. Differences of metadata are shown, and count only with --metadata.",
  ],
  examples: [
    { command: "tare diff model.safetensors model.gguf --exit-code", says: "is the conversion exact?" },
    { command: "tare diff checkpoint/ model.gguf --rename hf", says: "is the GGUF that of this checkpoint?" },
    { command: "tare diff base.safetensors tuned.safetensors --stats", says: "what fine-tuning changed" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [first = "", second = ""] = positionals;
    const { stats, tolerance, metadata, rename } = flags;
    const options = { ...(await readOptions(context)), stats, tolerance, metadata, rename };
    const result = await diff(commandHost(context), first, second, options);
    await context.show({
      json: () => result,
      text: () => renderDiff(result, metadata === true ? "counted" : "shown", context),
    });
    return exitCodeOfDiff(result, flags["exit-code"]);
  },
});

/** 3 where the two differ, on request. */
export function exitCodeOfDiff({ equal }: DiffResult, wanted: true | undefined): ExitCode {
  return !equal && wanted === true ? EXIT.findings : EXIT.success;
}
