import { once } from "node:events";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { nodeCommandHost, nodeReadOptions } from "../../node-host.ts";

export const viewCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: 1 },
  flags: {
    port: { kind: "integer", value: "N", min: 0, max: 65_535, summary: "port, 0 for a free one (0)" },
  },
  details: [
    "Shows one TARGET in the viewer: prints a link for your browser and serves the page and the target's files, on this machine alone and under a path that cannot be guessed, until Ctrl-C. A remote TARGET is read through this command, with its cache and its credentials. Passwords are asked for in the page.",
  ],
  examples: [
    { command: "tare view model.gguf", says: "prints a link to click" },
    { command: "tare view v.aerovault::models/a.gguf", says: "a model inside a vault, in place" },
    { command: "tare view s3://bucket/model.aeroset.json", says: "a set in object storage" },
  ],
  output: "report",
  async run(context, { flags, positionals: [target = ""] }) {
    const { viewOn } = await import("../../../src/platform/node/serve/view.ts");
    const dryRun = context.flags["dry-run"] === true;
    const options = { ...(await nodeReadOptions(context)), port: flags.port, dryRun };
    const viewer = await viewOn(await nodeCommandHost(context), target, options);
    try {
      await context.show({ json: () => viewer, text: () => viewer.url });
      if (dryRun) return EXIT.success;
      if (!context.signal.aborted) await once(context.signal, "abort");
      return EXIT.interrupted;
    } finally {
      await viewer.close();
    }
  },
});
