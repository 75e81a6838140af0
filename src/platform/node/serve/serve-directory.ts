import { realpath, stat } from "node:fs/promises";
import { UsageError } from "../../../base/errors.ts";
import { namedFileError } from "../folders.ts";
import { Access, parseCors } from "./access.ts";
import { RequestHandler } from "./request-handler.ts";
import { type ListenOptions, type RunningServer, startServer } from "./start-server.ts";

export { type AccessEntry, DEFAULT_PORT } from "./start-server.ts";

export interface ServeOptions extends ListenOptions {
  /** Origins whose pages may read the served files, or "*" for every page; none if absent. */
  readonly cors?: readonly string[] | undefined;
  /** Requests that may have a file open at once. Each holds at most twice 512 KiB, and once above 128 transfers. */
  readonly maxTransfers?: number | undefined;
}

export type DirectoryServer = RunningServer;

const MAX_TRANSFERS = 256;

/**
 * Serves the files below `directory` over HTTP, for reading: ranges and validators as browsers and downloaders expect
 * them. Pages of other origins may read them only if `cors` allows it. Resolves when the server listens. Throws a
 * TareError if the folder or the address cannot be used.
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
    throw namedFileError(error, `Cannot serve "${directory}"`, at);
  }
  throw new UsageError("usage/serve.directory", `Cannot serve "${directory}": must be a folder, found a file`, at, {
    hint: "Name the folder that holds it",
  });
}
