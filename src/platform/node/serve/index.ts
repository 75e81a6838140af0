/// <reference lib="esnext.disposable" preserve="true" />

import {
  COMMON_RULES,
  checkOptions,
  functionRule,
  integerRule,
  listOf,
  type OneOrMany,
  type OptionRules,
  switchRule,
  textsRule,
} from "../../../api/options.ts";
import { fullPath } from "../errors.ts";
import { checkPath } from "../paths.ts";
import { type AccessEntry, serveDirectory } from "./serve-directory.ts";

export type { AccessEntry } from "./serve-directory.ts";

/** Options of `serve`: the command's flags. */
export interface ServeOptions {
  /** 8008 if absent; 0 takes a free one. */
  readonly port?: number | undefined;
  /** Address to listen on; only this machine if absent. */
  readonly host?: string | undefined;
  /** Origins whose pages may read the files, or "*" for every page; none if absent. */
  readonly cors?: OneOrMany<string> | undefined;
  /** Closes the server. */
  readonly signal?: AbortSignal | undefined;
  /** Told of each request after it was answered. */
  readonly onRequest?: ((entry: AccessEntry) => void) | undefined;
  /** Closes the server before it is given out: to see whether the folder and the address can be used. */
  readonly dryRun?: boolean | undefined;
}

/** A server that listens. Its JSON is what `tare serve --json` prints. */
export interface Server {
  /** "http://127.0.0.1:8008", without a slash at the end; reachable from this machine. */
  readonly url: string;
  readonly port: number;
  /** Where other machines find it; empty unless it listens on every address. */
  readonly networkUrls: readonly string[];
  /** The full path of what is served. */
  readonly directory: string;
  readonly dryRun: boolean;
  /** Takes no more requests, gives replies a second to finish, then ends them. May be called twice. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const RULES: OptionRules = {
  port: integerRule(0, 65_535),
  // The system takes an empty text for every address of the machine.
  host: { must: "an address of this machine", test: (value) => typeof value === "string" && value !== "" },
  cors: textsRule,
  signal: COMMON_RULES.signal,
  onRequest: functionRule,
  dryRun: switchRule,
};

/** Serves the files below a folder over HTTP, for reading, and the viewer at its root. Resolves when it listens. */
export async function serve(folder: string | URL, options: ServeOptions = {}): Promise<Server> {
  checkOptions("serve", options, RULES);
  const { port, host, cors, signal, onRequest, dryRun = false } = options;
  signal?.throwIfAborted();
  const directory = checkPath("serve", "directory", folder);
  const server = await serveDirectory(directory, { port, host, cors: listOf(cors), onRequest });
  const closing = closeOnce(() => server.close(), signal);
  if (dryRun) await closing();
  const { url, networkUrls } = server;
  return disposable({ url, port: server.port, networkUrls, directory: fullPath(directory), dryRun }, closing);
}

/** Closes once, however often it is asked to, and when the signal is aborted. */
export function closeOnce(close: () => Promise<void>, signal: AbortSignal | undefined): () => Promise<void> {
  let closing: Promise<void> | undefined;
  const once = (): Promise<void> => {
    signal?.removeEventListener("abort", stop);
    closing ??= close();
    return closing;
  };
  const stop = (): void => void once().catch(() => undefined); // the next close() reports it
  if (signal?.aborted === true) stop();
  else signal?.addEventListener("abort", stop, { once: true });
  return once;
}

/** The facts of a server with what closes it, which JSON leaves out. */
export function disposable<T extends object>(
  facts: T,
  close: () => Promise<void>,
): T & { close(): Promise<void>; [Symbol.asyncDispose](): Promise<void> } {
  return { ...facts, close, [Symbol.asyncDispose]: close };
}
