import { realpath, stat } from "node:fs/promises";
import { UsageError } from "../../../base/errors.ts";
import { namedFileError } from "../folders.ts";
import { Access, type Login, parseCors } from "./access.ts";
import { RequestHandler } from "./request-handler.ts";
import { type AccessEntry, type ListenOptions, type RunningServer, startServer } from "./start-server.ts";
import { FolderTree } from "./trees/folder.ts";
import type { ServedTree } from "./trees/tree.ts";

export { type AccessEntry, DEFAULT_PORT } from "./start-server.ts";

export interface ServeOptions extends ListenOptions {
  /** Who may read; everybody if absent. */
  readonly login?: Login | undefined;
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
  return serveTree(new FolderTree(await findRoot(directory)), options);
}

export interface TreeOptions extends ServeOptions {
  /** The first name of every address, for those who know it. */
  readonly token?: string | undefined;
}

/** Serves a tree, and closes it when the server is closed. */
export async function serveTree(tree: ServedTree, options: TreeOptions): Promise<RunningServer> {
  const { token, login, onRequest } = options;
  let origin = "";
  const handler = new RequestHandler({
    tree,
    origin: () => origin,
    access: new Access(parseCors(options.cors ?? []), options.host),
    token,
    login,
    maxTransfers: options.maxTransfers ?? MAX_TRANSFERS,
  });
  const server = await startServer(handler, { ...options, onRequest: onRequest && withoutSecret(onRequest, token) });
  origin = server.url;
  const at = (url: string): string => (token === undefined ? url : `${url}/${token}`);
  const close = async (graceMs?: number): Promise<void> => {
    await server.close(graceMs);
    await tree.close();
  };
  return { ...server, url: at(server.url), networkUrls: server.networkUrls.map(at), close };
}

/** A log is read by others than those who may know the address. */
function withoutSecret(
  onRequest: (entry: AccessEntry) => void,
  token: string | undefined,
): (entry: AccessEntry) => void {
  if (token === undefined) return onRequest;
  return (entry) => onRequest({ ...entry, target: entry.target.replaceAll(token, "…") });
}

async function findRoot(directory: string): Promise<string> {
  const at = { source: directory };
  try {
    const root = await realpath(directory);
    if ((await stat(root)).isDirectory()) return root;
  } catch (error) {
    throw namedFileError(error, `Cannot serve "${directory}"`, at);
  }
  throw new UsageError(
    "usage/serve.directory",
    `Cannot serve "${directory}": must be a folder or a vault, found a file`,
    at,
    {
      hint: "Name the folder that holds it, or a vault",
    },
  );
}
