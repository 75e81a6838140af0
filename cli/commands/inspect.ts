import { inspect, metadataToJson } from "../../src/operations/inspect.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { renderInspection } from "../render/inspection.ts";

export const inspectCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: 1 },
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
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [target = ""] = positionals;
    const start = performance.now();
    const opened = await context.open(target);
    const inspection = inspect(opened);
    const cost = { ...opened.cost, milliseconds: Math.round(performance.now() - start) };
    await context.show({
      json: () => {
        const { metadata, version, description, facts, ...rest } = inspection;
        const asJson = { metadata: metadataToJson(metadata), facts: Object.fromEntries(facts) };
        return { ...rest, version: version ?? null, model: description, ...asJson, cost };
      },
      text: () => {
        const detail = flags.metadata === true || context.flags.verbose === true ? "all" : "first";
        return renderInspection(inspection, { label: opened.label, cost, metadata: detail }, context);
      },
    });
    return EXIT.success;
  },
});
