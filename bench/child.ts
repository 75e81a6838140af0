import { spawn } from "node:child_process";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A program and its arguments, run without a shell. */
export interface CommandLine {
  readonly program: string;
  readonly args: readonly string[];
}

/** The result of a finished process. */
export interface Outcome {
  /** From just before spawn to the exit, so Node's own start counts. */
  readonly milliseconds: number;
  readonly stdout: string;
}

const PROBE = fileURLToPath(new URL("./rss-probe.cjs", import.meta.url));

/** The current Node running a script. */
export function nodeCommand(script: string, ...args: readonly string[]): CommandLine {
  return { program: process.execPath, args: [script, ...args] };
}

/** The command as a person would type it, with the replacements of `shorten`. */
export function commandText(command: CommandLine, shorten: readonly (readonly [string, string])[]): string {
  // The path of a program on this machine is of no use to others.
  const program = command.program === process.execPath ? "node" : basename(command.program);
  let text = [program, ...command.args].join(" ");
  for (const [from, to] of shorten) text = text.replaceAll(from, to);
  return text;
}

/** Runs to the end and keeps standard output. Throws with the standard error if the exit code is not 0. */
export function runCapturing(command: CommandLine): Promise<Outcome> {
  return run(command, { stdout: "pipe" });
}

/** Wall time of one run. The system discards its output. */
export async function timeRun(command: CommandLine): Promise<number> {
  return (await run(command, { stdout: "ignore" })).milliseconds;
}

/** Peak resident bytes of a Node command. Takes a separate run, so that the probe costs no measured time. */
export async function peakMemory(command: CommandLine): Promise<number> {
  const report = join(tmpdir(), `tare-bench-rss-${process.pid}-${Date.now()}`);
  const probed = { program: command.program, args: ["--require", PROBE, ...command.args] };
  try {
    await run(probed, { stdout: "ignore", environment: { TARE_BENCH_RSS: report } });
    return Number(await readFile(report, "utf8"));
  } finally {
    await rm(report, { force: true });
  }
}

/** True if the program can be started at all. */
export function isInstalled(program: string): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(program, ["--version"], { stdio: "ignore" });
    child.on("error", () => resolve(false));
    child.on("exit", () => resolve(true));
  });
}

function run(
  command: CommandLine,
  options: { readonly stdout: "pipe" | "ignore"; readonly environment?: Readonly<Record<string, string>> },
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const child = spawn(command.program, command.args, {
      stdio: ["ignore", options.stdout, "pipe"],
      env: { ...plainEnvironment(), ...options.environment },
    });
    let ended = 0;
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout?.on("data", (piece: Buffer) => stdout.push(piece));
    child.stderr?.on("data", (piece: Buffer) => stderr.push(piece));
    child.on("error", reject);
    child.on("exit", () => {
      ended = performance.now();
    });
    // "close" comes after "exit", when the pipes are drained.
    child.on("close", (code) => {
      if (code === 0) resolve({ milliseconds: ended - began, stdout: Buffer.concat(stdout).toString("utf8") });
      else reject(new Error(failureText(command, code, Buffer.concat(stderr).toString("utf8"))));
    });
  });
}

function failureText(command: CommandLine, code: number | null, stderr: string): string {
  return `Cannot measure: exit code must be 0, found ${code}: ${commandText(command, [])}\n${stderr.slice(0, 2000)}`;
}

/** An environment that changes neither side: no injected Node options, no proxy before loopback, no colours. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR, LANG } = process.env;
  return { PATH, HOME, TMPDIR, LANG, NO_COLOR: "1" };
}
