import { once } from "node:events";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { placeForCommand } from "../open-input.ts";

export const viewCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: 1 },
  flags: {
    port: { kind: "integer", value: "N", min: 0, max: 65_535, summary: "port, 0 for a free one (0)" },
  },
  details: [
    "Shows one TARGET in the viewer: prints a link for your browser and serves the page and the target's files, on this machine alone and under a path that nobody can guess, until Ctrl-C. A remote TARGET is read through this command, with its cache and its credentials. Passwords are asked for in the page.",
  ],
  examples: [
    { command: "tare view model.gguf", says: "prints a link to click" },
    { command: "tare view v.aerovault::models/a.gguf", says: "a model inside a vault, in place" },
    { command: "tare view s3://bucket/model.aeroset.json", says: "a set in object storage" },
  ],
  output: "report",
  async run(context, { flags, positionals: [target = ""] }) {
    const place = await placeForCommand(context, target);
    try {
      const { serveTarget, siblingsOf } = await import("../../src/platform/node/serve/serve-target.ts");
      const server = await serveTarget(place, { port: flags.port ?? 0, siblings: await siblingsOf(place) });
      try {
        const dryRun = context.flags["dry-run"] === true;
        await context.show({
          json: () => ({ url: server.link, port: server.port, target, dryRun }),
          text: () => server.link,
        });
        if (dryRun) return EXIT.success;
        if (!context.signal.aborted) await once(context.signal, "abort");
        return EXIT.interrupted;
      } finally {
        await server.close();
      }
    } finally {
      await place.source.close();
    }
  },
});
