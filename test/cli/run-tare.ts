import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { run } from "../../cli/dispatch.ts";
import type { Terminal } from "../../cli/terminal/terminal.ts";
import { rememberingKeys } from "../builders/vault.ts";

/** The built program, as users run it. */
export const TARE = new URL("../../dist/bin/tare.js", import.meta.url).pathname;

export interface Run {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly input?: Uint8Array | undefined;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Called with what is written to standard error, when it is written. */
  readonly onErr?: (text: string) => void;
}

/** The folder and environment at the start: each call changes both while it runs. */
const HERE = process.cwd();
const ENVIRONMENT = { ...process.env };

/** Turns the cache off, so that no test finds bytes that another one left; tests of the cache turn it on. */
function environmentOf({ env }: RunOptions): Record<string, string | undefined> {
  return { ...ENVIRONMENT, NO_COLOR: "1", HF_TOKEN: "", TARE_CACHE_SIZE: "0", ...env };
}

/** Runs the built program to its end, as a process of its own. */
export function tare(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  if (!existsSync(TARE)) throw new Error("dist/bin/tare.js is missing: run `npm run build` first");
  const child = spawn(process.execPath, [TARE, ...args], {
    cwd: options.cwd ?? HERE,
    env: environmentOf(options),
  });
  child.stdin.on("error", () => undefined); // a program that ends without reading its input is fine
  child.stdin.end(options.input ?? "");
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on("data", (piece: Buffer) => out.push(piece));
  child.stderr.on("data", (piece: Buffer) => {
    err.push(piece);
    options.onErr?.(piece.toString());
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      const stdout = Buffer.concat(out);
      resolve({ code, stdout, out: stdout.toString(), err: Buffer.concat(err).toString() });
    });
  });
}

/**
 * Settles when the last call has ended. Calls run in turn, because folder and environment belong to the whole process.
 */
let calls: Promise<unknown> = Promise.resolve();

/**
 * Runs the same program by a call of its function, one call at a time: a tenth of the cost. A run that needs its own
 * process gets one: with an input, or with a script that is loaded first. With TARE_TESTS=all, every run does.
 */
export function callTare(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const needsProcess = options.input !== undefined || args.includes("-") || "NODE_OPTIONS" in (options.env ?? {});
  if (needsProcess || ENVIRONMENT["TARE_TESTS"] === "all") return tare(args, options);
  return callHere(args, options);
}

/** The same, never as a process: for tests that replace something that the program asks, such as the table of mounts. */
export function callHere(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const call = calls.then(() => callNow(args, options));
  calls = call.catch(() => undefined);
  return call;
}

async function callNow(args: readonly string[], options: RunOptions): Promise<Run> {
  const out: Buffer[] = [];
  let err = "";
  const terminal: Terminal = {
    outIsTerminal: false,
    errIsTerminal: false,
    columns: 80,
    writeOut: async (content) => void out.push(Buffer.from(content)), // a copy: the memory may be used again
    writeErr: (text) => {
      err += text;
      options.onErr?.(text);
    },
  };
  const cleanups: (() => void)[] = [];
  const env = environmentOf(options);
  setEnvironment(env);
  if (options.cwd !== undefined) process.chdir(options.cwd);
  try {
    const { signal } = new AbortController();
    const onExit = (cleanup: () => void): void => void cleanups.push(cleanup);
    const code = await run(args, { env, terminal, signal, onExit, adaptEngine: rememberingKeys });
    const stdout = Buffer.concat(out);
    return { code, stdout, out: stdout.toString(), err };
  } finally {
    for (const cleanup of cleanups) cleanup();
    if (options.cwd !== undefined) process.chdir(HERE);
    setEnvironment(ENVIRONMENT);
  }
}

/** Sets the environment of the process, because some of our code and Node itself read it there. */
function setEnvironment(wanted: Readonly<Record<string, string | undefined>>): void {
  for (const name of Object.keys(process.env)) if (wanted[name] === undefined) delete process.env[name];
  for (const [name, value] of Object.entries(wanted)) if (value !== undefined) process.env[name] = value;
}

/** A folder for one test, removed afterwards. */
export function scratch(): (name: string, bytes?: Uint8Array | string) => string {
  const folder = mkdtempSync(join(tmpdir(), "tare-cli-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return (name, bytes) => {
    const path = join(folder, name);
    if (bytes !== undefined) writeFileSync(path, bytes);
    return path;
  };
}
