import { MAX_BINS, stats } from "../../../src/api/look/stats.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, readOptions } from "../../host.ts";
import { renderStatistics } from "../../render/look/statistics.ts";

export const statsCommand = defineCommand({
  positionals: { names: ["TARGET", "GLOB"], min: 1, max: 2 },
  flags: {
    hist: { kind: "integer", value: "N", min: 1, max: MAX_BINS, summary: "a histogram of N bins for each tensor" },
  },
  details: ["Over the finite values of each tensor; std is the population's. Exits 3 where a tensor holds NaN or Inf."],
  examples: [
    { command: "tare stats model.safetensors", says: "every tensor" },
    { command: 'tare stats model.safetensors "*norm*" --hist 24', says: "some, with a histogram" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [target = "", ...glob] = positionals;
    const options = { ...(await readOptions(context)), glob, hist: flags.hist };
    const result = await stats(commandHost(context), target, options);
    await context.show({ json: () => result, text: () => renderStatistics(result.tensors, context) });
    return result.tensors.some((row) => row.nan > 0 || row.inf > 0) ? EXIT.findings : EXIT.success;
  },
});
