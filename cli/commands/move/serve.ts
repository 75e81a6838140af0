import { once } from "node:events";
import { formatSize, formatTime } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { type AccessEntry, serve } from "../../../src/platform/node/serve/index.ts";
import { DEFAULT_PORT } from "../../../src/platform/node/serve/serve-directory.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";

export const serveCommand = defineCommand({
  positionals: { names: ["DIR"], min: 1, max: 1 },
  flags: {
    port: { kind: "integer", value: "N", min: 0, max: 65_535, summary: `port, 0 for a free one (${DEFAULT_PORT})` },
    host: { kind: "text", value: "H", summary: "address to listen on (127.0.0.1); 0.0.0.0 for the network" },
    cors: {
      kind: "list",
      value: "ORIGIN|*",
      summary: "let pages of this origin read the files, * for all; repeatable",
    },
  },
  details: [
    "Hands out the files of DIR over HTTP until Ctrl-C: ranges, ETags; read-only. Pages of other origins cannot read them unless --cors lets them in, and requests are answered only under a name of this machine. At / is the viewer, which opens them in the browser. Hidden files and links that lead out of DIR are not served. The address is printed once the server listens; -v logs every request.",
  ],
  examples: [
    { command: "tare serve models", says: "for this machine alone" },
    { command: "tare serve models --host 0.0.0.0", says: "for everybody on the network" },
    { command: "tare serve models --cors https://viewer.example", says: "pages of that origin may read, too" },
    { command: "tare serve . --port 0 --json", says: "a free port, told to a script" },
  ],
  output: "report",
  async run(context, { flags, positionals: [directory = "."] }) {
    const { host, port, cors } = flags;
    const onRequest = context.flags.verbose === true ? (entry: AccessEntry) => log(context, entry) : undefined;
    const dryRun = context.flags["dry-run"] === true;
    const server = await serve(directory, { host, port, cors, onRequest, dryRun });
    try {
      await context.show({ json: () => server, text: () => server.url });
      if (dryRun) return EXIT.success;
      for (const address of server.networkUrls) context.note(`Others find it at ${address}`);
      if (!context.signal.aborted) await once(context.signal, "abort");
      return EXIT.interrupted;
    } finally {
      await server.close();
    }
  },
});

function log(context: Context, entry: AccessEntry): void {
  const { client, method, target, status, byteLength, milliseconds, outcome, error } = entry;
  const cut = outcome === "cut" ? ` cut off${error instanceof Error ? `: ${error.message}` : ""}` : "";
  const line = `${client} ${method} ${target} ${status} ${formatSize(byteLength)} ${formatTime(milliseconds)}${cut}`;
  context.warn(printable(line));
}
