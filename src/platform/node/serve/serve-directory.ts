import { realpath, stat } from "node:fs/promises";
import { UsageError } from "../../../base/errors.ts";
import { fileError } from "../errors.ts";
import { Access, parseCors } from "./access.ts";
import { RequestHandler } from "./request-handler.ts";
import { type ListenOptions, type RunningServer, startServer } from "./start-server.ts";

export { type AccessEntry, DEFAULT_PORT } from "./start-server.ts";

export interface ServeOptions extends ListenOptions {
  /** Origins whose pages may read what is served, or "*" for every page; none where absent. */
  readonly cors?: readonly string[] | undefined;
  /** Requests that may have a file open at the same time. Memory is bounded by twice 512 KiB for each, and falls to once above 128. */
  readonly maxTransfers?: number | undefined;
}

export type DirectoryServer = RunningServer;

const MAX_TRANSFERS = 256;

/**
 * Serves the files below `directory` over HTTP, for reading: ranges and validators as browsers and downloaders want
 * them. Pages of other origins may read them only where `cors` says so. Resolves when the server listens. Throws a TareError where the folder or the address is no good.
 */
export async function serveDirectory(directory: string, options: ServeOptions = {}): Promise<DirectoryServer> {
  const root = await findRoot(directory);
  let url = "";
  const handler = new RequestHandler({
    root,
    origin: () => url,
    access: new Access(parseCors(options.cors ?? []), options.host),
    maxTransfers: options.maxTransfers ?? MAX_TRANSFERS,
  });
  const server = await startServer(handler, options);
  url = server.url;
  return server;
}

async function findRoot(directory: string): Promise<string> {
  const at = { source: directory };
  try {
    const root = await realpath(directory);
    if ((await stat(root)).isDirectory()) return root;
  } catch (error) {
    throw fileError(error, `Cannot serve "${directory}"`, at);
  }
  throw new UsageError("usage/serve.directory", `Cannot serve "${directory}": must be a folder, found a file`, at, {
    hint: "Name the folder that holds it",
  });
}
