/// <reference lib="esnext.disposable" preserve="true" />

import { randomBytes } from "node:crypto";
import { open, stat } from "node:fs/promises";
import { type Request, requestOf } from "../../../api/host.ts";
import {
  COMMON_RULES,
  type CommonOptions,
  checkOptions,
  functionRule,
  integerRule,
  listOf,
  type OneOrMany,
  type OptionRules,
  switchRule,
  textRule,
  textsRule,
} from "../../../api/options.ts";
import { UsageError } from "../../../base/errors.ts";
import { withReason } from "../../../bytes/abort.ts";
import { legacyVersion } from "../../../formats/aerovault/index.ts";
import { VAULT_MAGIC } from "../../../formats/aerovault/layout.ts";
import { findingFromError } from "../../../model/finding.ts";
import { fullPath } from "../errors.ts";
import { type NodeHost, nodeHost, tellDoubt } from "../host.ts";
import { checkPath } from "../paths.ts";
import { localFileOf } from "../targets.ts";
import { isLoopback, Login, MAX_LOGIN_BYTES, parseCors } from "./access.ts";
import { type AccessEntry, serveDirectory, serveTree } from "./serve-directory.ts";
import type { RunningServer } from "./start-server.ts";
import { VaultTree } from "./trees/vault.ts";

export type { AccessEntry } from "./serve-directory.ts";

/** Options of `serve`: the command's flags. Those of opening are for a vault. */
export interface ServeOptions extends CommonOptions {
  /** 8008 if absent; 0 takes a free one. */
  readonly port?: number | undefined;
  /** Address to listen on; only this machine if absent. */
  readonly host?: string | undefined;
  /** Origins whose pages may read the files, or "*" for every page; none if absent. */
  readonly cors?: OneOrMany<string> | undefined;
  /** False serves a vault under an address that can be guessed. A folder always has such an address. */
  readonly token?: false | undefined;
  /** A file with one line, `user:password`: who may read. */
  readonly authFile?: string | undefined;
  /** Closes the server. */
  readonly signal?: AbortSignal | undefined;
  /** Told of each request after it was answered. */
  readonly onRequest?: ((entry: AccessEntry) => void) | undefined;
  /** Closes the server before it is given out: to see whether what is served and the address can be used. */
  readonly dryRun?: boolean | undefined;
}

/** A server that listens. Its JSON is what `tare serve --json` prints. */
export interface Server {
  /**
   * "http://127.0.0.1:8008", without a slash at the end; reachable from this machine. That of a vault ends with a name
   * that cannot be guessed, and nothing is answered without it.
   */
  readonly url: string;
  readonly port: number;
  /** Where other machines find it; empty unless it listens on every address. */
  readonly networkUrls: readonly string[];
  /** The full path of what is served, a folder or a vault. */
  readonly directory: string;
  readonly dryRun: boolean;
  /** Takes no more requests, gives replies a second to finish, then ends them. May be called twice. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const RULES: OptionRules = {
  ...COMMON_RULES,
  port: integerRule(0, 65_535),
  // The system takes an empty text for every address of the machine.
  host: { must: "an address of this machine", test: (value) => typeof value === "string" && value !== "" },
  cors: textsRule,
  token: { must: "false, or absent", values: "shown", test: (value) => value === false },
  authFile: textRule,
  onRequest: functionRule,
  dryRun: switchRule,
};

/**
 * Serves the files below a folder over HTTP, for reading, and the viewer at its root; or the files of a vault, also to
 * file managers (WebDAV). Resolves when it listens.
 */
export function serve(path: string | URL, options?: ServeOptions): Promise<Server> {
  return serveOn(nodeHost(), path, options);
}

export async function serveOn(host: NodeHost, path: string | URL, options: ServeOptions = {}): Promise<Server> {
  checkOptions("serve", options, RULES);
  const { signal, dryRun = false } = options;
  signal?.throwIfAborted();
  const target = checkPath("serve", "directory", path);
  const server = await withReason(signal, () => listen(host, target, options));
  const closing = closeOnce(() => server.close(), signal);
  if (dryRun) await closing();
  const { url, port, networkUrls } = server;
  return disposable({ url, port, networkUrls, directory: fullPath(target), dryRun }, closing);
}

async function listen(host: NodeHost, target: string, options: ServeOptions): Promise<RunningServer> {
  const { port, onRequest, authFile } = options;
  const cors = listOf(options.cors);
  parseCors(cors ?? []);
  const login = authFile === undefined ? undefined : await readLogin(host, authFile, options);
  const listening = { port, host: options.host, cors, onRequest, login };
  if (!(await isVault(target))) return serveDirectory(target, listening);
  checkReach(target, options);
  const token = options.token === false ? undefined : randomBytes(TOKEN_BYTES).toString("hex");
  const tree = await openTree(host, target, await requestOf(host, "serve", options, RULES));
  try {
    return await serveTree(tree, { ...listening, token });
  } catch (error) {
    await tree.close();
    throw error;
  }
}

/** 2^128 names are too many to try. */
const TOKEN_BYTES = 16;

async function readLogin(host: NodeHost, path: string, options: ServeOptions): Promise<Login> {
  const what = { option: "authFile", maxBytes: MAX_LOGIN_BYTES };
  const content = await host.readNamed?.(path, options, what);
  return Login.parse(content ?? new Uint8Array(0), path);
}

/** A name in the address is as good as a password on this machine, but every network that it crosses sees it. */
function checkReach(target: string, { host, authFile, token }: ServeOptions): void {
  if (host === undefined || isLoopback(host) || authFile !== undefined || token === false) return;
  const message = `Cannot serve the vault "${target}" beyond this machine without a password`;
  const hint = "Pass the option authFile with a user and a password, or the option token: false to let everybody in";
  throw new UsageError("usage/serve.reach", message, { source: target }, { hint });
}

/** Bytes by which vaults of every version are known. */
const HEAD_BYTES = 4096;

/** True for a file of this machine that begins as a vault does, and for one in another vault. */
async function isVault(target: string): Promise<boolean> {
  const file = await localFileOf(target);
  if (file === undefined) return false;
  if (file !== target) return true; // opening it says what it is
  if (!(await stat(file)).isFile()) return false;
  const handle = await open(file, "r").catch(() => undefined);
  if (handle === undefined) return true; // opening it says why not
  try {
    const { buffer, bytesRead } = await handle.read(new Uint8Array(HEAD_BYTES), 0, HEAD_BYTES, 0);
    const head = buffer.subarray(0, bytesRead);
    const magic = String.fromCharCode(...head.subarray(0, VAULT_MAGIC.length));
    return magic === VAULT_MAGIC || legacyVersion(head) !== undefined;
  } finally {
    await handle.close();
  }
}

async function openTree(host: NodeHost, target: string, request: Request<ServeOptions>): Promise<VaultTree> {
  const opening = await host.opening(target, request);
  try {
    const tree = await VaultTree.open({
      target,
      opening,
      onFailure: (error) => tellDoubt(host, findingFromError(error, "warning"), request),
    });
    for (const warning of tree.vault.warnings) tellDoubt(host, warning, request);
    return tree;
  } catch (error) {
    await opening.close();
    throw error;
  }
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
