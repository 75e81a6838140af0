import { UsageError } from "../src/base/errors.ts";
import type { Alias, Command } from "./command.ts";
import { commandNames, findCommand } from "./commands/registry.ts";
import { type Context, createContext } from "./context.ts";
import { describeError, renderError } from "./errors.ts";
import { EXIT, type ExitCode, exitCodeOf } from "./exit-codes.ts";
import { parseFlags } from "./flags.ts";
import { GLOBAL_FLAGS, type GlobalFlags } from "./global-flags.ts";
import { nearest } from "./nearest.ts";
import { chooseColors } from "./render/colors.ts";
import { encodeJson } from "./render/json.ts";
import { BrokenPipe, processTerminal, type Terminal } from "./terminal.ts";
import { readVersion } from "./version.ts";

/** How long an interrupted command may take to put things away before the process ends anyway. */
const GRACE_MS = 2000;
/** 128 + SIGTERM, as shells count. */
const TERMINATED = 143;

const terminal = processTerminal(process.env);
const interruption = new AbortController();
/** Run when the process ends, however it does: unfinished files are removed. */
const exitCallbacks = new Set<() => void>();

/** Splits off the command's name: global flags may stand before it. */
function splitCommand(argv: readonly string[]): { readonly name: string | undefined; readonly rest: string[] } {
  let i = 0;
  while (i < argv.length && (argv[i] as string).startsWith("-")) i += takesNext(argv[i] as string) ? 2 : 1;
  return { name: argv[i], rest: [...argv.slice(0, i), ...argv.slice(i + 1)] };
}

function takesNext(argument: string): boolean {
  const entry = Object.entries(GLOBAL_FLAGS).find(
    ([name, flag]) => argument === `--${name}` || ("short" in flag && argument === `-${flag.short}`),
  );
  return entry !== undefined && entry[1].kind !== "switch";
}

async function dispatch(argv: readonly string[]): Promise<ExitCode> {
  const { name, rest } = splitCommand(argv);
  if (name === undefined || name === "help") return showGlobalHelp(argv, rest);
  const found = findCommand(name);
  if (found === undefined) throw unknownCommand(name);
  const command = await found.entry.load();
  const table = { ...GLOBAL_FLAGS, ...command.flags };
  const { flags, positionals } = parseFlags(rest, table, found.entry.name);
  if (flags.help === true) return showCommandHelp(name);
  const adapted = adaptAlias(found.alias, { flags: flags as GlobalFlags, positionals });
  checkPositionals(command, adapted.positionals, found.entry.usage);
  const context = createContext({
    command: found.entry.name,
    flags: adapted.flags,
    env: process.env,
    terminal,
    signal: interruption.signal,
    onExit: (callback) => exitCallbacks.add(callback),
    reportPath: command.output === "report" && adapted.flags.output !== "-" ? adapted.flags.output : undefined,
  });
  return runCommand(command, context, adapted.positionals);
}

async function runCommand(command: Command, context: Context, positionals: readonly string[]): Promise<ExitCode> {
  try {
    if (context.reportPath !== undefined)
      await (await import("./output-target.ts")).checkAbsent(context, context.reportPath);
    return await command.run(context, { flags: context.flags as never, positionals });
  } finally {
    await context.close();
  }
}

interface Typed {
  readonly flags: GlobalFlags;
  readonly positionals: readonly string[];
}

function adaptAlias(alias: Alias | undefined, typed: Typed): Typed {
  const { flags, positionals } = typed;
  if (alias?.outputAfter === undefined || positionals.length !== alias.outputAfter) return typed;
  const output = flags.output ?? (positionals.at(-1) as string);
  return { flags: { ...flags, output }, positionals: positionals.slice(0, -1) };
}

function checkPositionals(command: Command, positionals: readonly string[], usage: string): void {
  const { names, min, max } = command.positionals;
  if (positionals.length >= min && positionals.length <= max) return;
  const message =
    positionals.length < min
      ? `Cannot run without ${names[positionals.length] ?? names.at(-1)}`
      : `Cannot use "${positionals[max]}": ${max === 0 ? "no arguments are expected" : `at most ${max} expected`}`;
  throw new UsageError("usage/arguments", message, { source: "command line" }, { hint: `Usage: tare ${usage}` });
}

function unknownCommand(name: string): UsageError {
  const near = nearest(name, commandNames());
  return new UsageError(
    "usage/unknown-command",
    `Cannot run "${name}": unknown command`,
    { source: "command line" },
    { hint: near === undefined ? "List the commands with: tare --help" : `Did you mean "${near}"?` },
  );
}

async function showGlobalHelp(argv: readonly string[], rest: readonly string[]): Promise<ExitCode> {
  const topic = rest.find((argument) => !argument.startsWith("-"));
  if (topic !== undefined) return showCommandHelp(topic);
  if (argv.includes("--version") || argv.includes("-V")) {
    const version = readVersion();
    await terminal.writeOut(argv.includes("--json") ? `${encodeJson({ version }, "compact")}\n` : `tare ${version}\n`);
    return EXIT.success;
  }
  parseFlags(rest, GLOBAL_FLAGS, "tare");
  const { renderHelp } = await import("./help.ts");
  await terminal.writeOut(renderHelp(colorsFor(argv, terminal.outIsTerminal)));
  return EXIT.success;
}

async function showCommandHelp(name: string): Promise<ExitCode> {
  const found = findCommand(name);
  if (found === undefined) throw unknownCommand(name);
  const { renderCommandHelp } = await import("./help.ts");
  const colors = colorsFor(process.argv, terminal.outIsTerminal);
  await terminal.writeOut(renderCommandHelp(found.entry, await found.entry.load(), colors));
  return EXIT.success;
}

/** Colours before, or without, successfully parsed flags. */
function colorsFor(argv: readonly string[], isTerminal: boolean): ReturnType<typeof chooseColors> {
  const at = argv.indexOf("--color");
  const text = at >= 0 ? argv[at + 1] : argv.find((a) => a.startsWith("--color="))?.slice("--color=".length);
  const flag = text === "always" || text === "never" ? text : undefined;
  return chooseColors({ flag, isTerminal, env: process.env });
}

/** Prints what went wrong, as text or as the one JSON document, and gives the exit code. */
async function report(error: unknown, argv: readonly string[], to: Terminal): Promise<ExitCode> {
  if (error instanceof BrokenPipe) return EXIT.success;
  const end = argv.indexOf("--");
  const wantsJson = argv.slice(0, end < 0 ? undefined : end).includes("--json");
  if (wantsJson) await to.writeOut(`${encodeJson(describeError(error), "compact")}\n`);
  // Somebody at a terminal who redirected standard output still wants to know.
  if (!wantsJson || (to.errIsTerminal && !to.outIsTerminal)) {
    to.writeErr(renderError(error, colorsFor(argv, to.errIsTerminal)));
  }
  const isBug = exitCodeOf(error) === EXIT.internal;
  const verbose = argv.includes("-v") || argv.includes("--verbose");
  if (isBug || verbose) to.writeErr(`${await traceOf(error)}\n`);
  return exitCodeOf(error);
}

/** The stack, with the causes behind it. */
async function traceOf(error: unknown): Promise<string> {
  const { inspect } = await import("node:util");
  return inspect(error);
}

/** Lets the command unwind, and ends the process itself where that takes too long or a second signal comes. */
function interrupt(exitCode: number): void {
  if (interruption.signal.aborted) process.exit(exitCode);
  process.exitCode = exitCode;
  interruption.abort();
  setTimeout(() => process.exit(exitCode), GRACE_MS).unref();
}

async function main(argv: readonly string[]): Promise<void> {
  process.on("SIGINT", () => interrupt(EXIT.interrupted));
  process.on("SIGTERM", () => interrupt(TERMINATED));
  process.on("exit", () => {
    for (const callback of exitCallbacks) callback();
  });
  let exitCode: number;
  try {
    exitCode = await dispatch(argv);
  } catch (thrown) {
    // What fails after Ctrl-C fails because of it, whatever it says.
    const error = interruption.signal.aborted ? interruption.signal.reason : thrown;
    exitCode = await report(error, argv, terminal).catch(() => EXIT.internal);
    if (interruption.signal.aborted) exitCode = Number(process.exitCode);
  }
  // Idle sockets and workers must not hold the process; everything written has been taken by now.
  process.exit(exitCode);
}

void main(process.argv.slice(2));
