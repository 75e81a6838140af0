import { map } from "../../../src/api/look/map.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandHost, readOptions } from "../../host.ts";
import { renderLayout } from "../../render/look/layout.ts";

export const mapCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: 1 },
  flags: {},
  details: [
    "Accounts for every byte of every file, as a strip to scale and as a table. Padding is what lies between two parts and is shorter than the alignment; unclaimed bytes belong to nothing.",
  ],
  examples: [{ command: "tare map model.gguf", says: "where everything lies" }],
  output: "report",
  async run(context, { positionals }) {
    const [target = ""] = positionals;
    const result = await map(commandHost(context), target, await readOptions(context));
    await context.show({ json: () => result, text: () => renderLayout(result, context) });
    return EXIT.success;
  },
});
