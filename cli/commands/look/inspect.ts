import { inspectInput } from "../../../src/api/look/inspect.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, readOptions } from "../../host.ts";
import { renderInspection } from "../../render/inspection.ts";
import { type Looked, showTargets } from "../../targets/several.ts";

export const inspectCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: Number.POSITIVE_INFINITY },
  flags: {
    metadata: { kind: "switch", summary: "every metadata key, not only the first few" },
  },
  details: [
    "Reads the control region only, never the weights: a remote model costs one or two requests. The last line says what it took.",
  ],
  examples: [
    { command: "tare inspect model.gguf", says: "a file" },
    { command: "tare inspect https://example.org/model.safetensors", says: "a remote file, without downloading it" },
    { command: "tare inspect model-directory", says: "a model in several files" },
    { command: "tare inspect *.gguf", says: "several models, one after the other" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const detail = flags.metadata === true || context.flags.verbose === true ? "all" : "first";
    const options = await readOptions(context);
    const look = async (target: string): Promise<Looked> => {
      const { result, inspection, label } = await inspectInput(commandHost(context), target, options);
      const text = (): string => renderInspection(inspection, { label, cost: result.cost, metadata: detail }, context);
      return { code: EXIT.success, json: () => result, text };
    };
    return showTargets(context, { targets: positionals, look });
  },
});
