import { once } from "node:events";
import { formatSize, formatTime } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { type AccessEntry, serveOn } from "../../../src/platform/node/serve/index.ts";
import { DEFAULT_PORT } from "../../../src/platform/node/serve/serve-directory.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { nodeCommandHost, nodeReadOptions } from "../../node-host.ts";

export const serveCommand = defineCommand({
  positionals: { names: ["PATH"], min: 1, max: 1 },
  flags: {
    port: { kind: "integer", value: "N", min: 0, max: 65_535, summary: `port, 0 for a free one (${DEFAULT_PORT})` },
    host: { kind: "text", value: "H", summary: "address to listen on (127.0.0.1); 0.0.0.0 for the network" },
    cors: {
      kind: "list",
      value: "ORIGIN|*",
      summary: "let pages of this origin read the files, * for all; repeatable",
    },
    "auth-file": {
      kind: "path",
      value: "FILE",
      summary: "let in only the user of FILE, one line: user:password",
    },
    "no-token": { kind: "switch", summary: "serve a vault under an address that can be guessed" },
  },
  details: [
    "Hands out the files of PATH, a folder or a vault, over HTTP until Ctrl-C: ranges, ETags; read-only. Pages of other origins cannot read them unless --cors lets them in, and requests are answered only under a name of this machine. At / is the viewer, which opens them in the browser. Hidden files and links that lead out of DIR are not served. The address is printed once the server listens; -v logs every request.",
    "A vault is served to file managers too (WebDAV, read-only), in the state that is on the disk when a request comes. Its address ends with a name that cannot be guessed, because other users of this machine reach the port; without that name nothing is answered. --no-token drops it. Beyond this machine, with --host, a vault needs --auth-file or --no-token.",
  ],
  examples: [
    { command: "tare serve models", says: "for this machine alone" },
    { command: "tare serve models --host 0.0.0.0", says: "for everybody on the network" },
    { command: "tare serve models --cors https://viewer.example", says: "pages of that origin may read, too" },
    { command: "tare serve . --port 0 --json", says: "a free port, told to a script" },
    { command: "tare serve models.aerovault", says: "the files of a vault; mount the address as a network folder" },
    {
      command: "tare serve models.aerovault --host 0.0.0.0 --auth-file login.txt",
      says: "for one user on the network",
    },
  ],
  output: "report",
  async run(context, { flags, positionals: [path = "."] }) {
    const { host, port, cors, "auth-file": authFile } = flags;
    const token = flags["no-token"] === true ? (false as const) : undefined;
    const onRequest = context.flags.verbose === true ? (entry: AccessEntry) => log(context, entry) : undefined;
    const dryRun = context.flags["dry-run"] === true;
    const { onProgress: _, ...opening } = await nodeReadOptions(context);
    const options = { ...opening, signal: undefined, host, port, cors, token, authFile, onRequest, dryRun };
    const server = await serveOn(await nodeCommandHost(context), path, options);
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
