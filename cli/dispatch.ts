import { UsageError } from "../src/base/errors.ts";
import { nearest } from "../src/base/nearest.ts";
import { isS3Url } from "../src/bytes/s3/address.ts";
import { packageVersion } from "../src/platform/node/own-script.ts";
import { pathOf } from "../src/platform/node/paths.ts";
import { type Alias, type Command, INPUT_NAMES, PLACE_NAMES } from "./command.ts";
import { createContext } from "./command-context.ts";
import { commandNames, findCommand, isGroup } from "./commands/registry.ts";
import type { Context, ContextOptions } from "./context.ts";
import { report } from "./errors.ts";
import { EXIT, type ExitCode, exitCodeOf } from "./exit-codes.ts";
import { type FlagTable, GLOBAL_FLAGS, type GlobalFlags, parseFlags } from "./flags/flags.ts";
import { renderCommandHelp, renderGroupHelp, renderHelp } from "./help.ts";
import { type Colors, chooseColors } from "./render/colors.ts";
import { encodeJson } from "./render/json.ts";
import { findInputFiles, inputsAmong } from "./targets/inputs.ts";
import { checkAbsent } from "./targets/outputs.ts";
import { checkPasswordsTaken } from "./terminal/password.ts";
/** What a run needs besides its arguments. */
export type World = Pick<ContextOptions, "env" | "terminal" | "signal" | "onExit" | "adaptEngine">;

interface SplitCommand {
  readonly name: string | undefined;
  readonly rest: string[];
}

/** Splits off the command's name: two words for a verb of a group. Global flags may come before either. */
function splitCommand(argv: readonly string[]): SplitCommand {
  const { name, rest } = splitWord(argv);
  if (name === undefined || !isGroup(name)) return { name, rest };
  const verb = splitWord(rest);
  return verb.name === undefined ? { name, rest } : { name: `${name} ${verb.name}`, rest: verb.rest };
}

function splitWord(argv: readonly string[]): SplitCommand {
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

/** Runs a command and reports its error; returns the exit code. This is all that the process does, apart from signals. */
export function run(argv: readonly string[], world: World): Promise<ExitCode> {
  return dispatch(argv, world).catch((error: unknown) =>
    // A failure after Ctrl-C happens because of it, whatever its message says.
    report(world.signal.aborted ? world.signal.reason : error, argv, world),
  );
}

/** Runs the command that `argv` names, or shows help. */
export async function dispatch(argv: readonly string[], world: World): Promise<ExitCode> {
  const { name, rest } = splitCommand(argv);
  if (name === undefined || name === "help") return showHelp(rest, world);
  if (isGroup(name)) return showGroup(name, rest, world);
  const found = findCommand(name);
  if (found === undefined) throw unknownCommand(name);
  const command = await found.entry.load();
  const table = { ...GLOBAL_FLAGS, ...command.flags };
  const { flags, positionals } = parseFlags(rest, table, found.entry.name);
  if (flags.help === true) return showCommandHelp(name, { ...world, color: flags.color });
  const typed = adaptAlias(found.alias, { flags: flags as GlobalFlags, positionals });
  const adapted = withPaths(command, table, typed);
  checkPositionals(command, adapted.positionals, found.entry.usage);
  const context = createContext({
    command: found.entry.name,
    flags: adapted.flags,
    ...world,
    reportPath: command.output === "report" && adapted.flags.output !== "-" ? adapted.flags.output : undefined,
    targetCount: inputsAmong(command, adapted.positionals).length,
    inputs: await findInputFiles(command, table, { ...adapted, env: world.env }),
  });
  return runCommand(command, context, adapted.positionals);
}

async function runCommand(command: Command, context: Context, positionals: readonly string[]): Promise<ExitCode> {
  let damaged = false;
  try {
    await checkOutputs(command, context, positionals);
    if (context.reportPath !== undefined) await checkAbsent(context, context.reportPath);
    const code = await command.run(context, { flags: context.flags as never, positionals });
    checkPasswordsTaken(context);
    damaged = isDamage(code);
    return code;
  } catch (error) {
    damaged = isDamage(exitCodeOf(error));
    throw error;
  } finally {
    await context.close();
    // Damaged bytes may be wrong only in the cache, so the next run asks the server.
    if (damaged) await context.distrust();
  }
}

/**
 * A user who names an output VAULT::path wants it encrypted: it is written there or not at all. An address is not a
 * path on disk either.
 */
async function checkOutputs(command: Command, context: Context, positionals: readonly string[]): Promise<void> {
  const named = (command.writes ?? []).map((position) => positionals[position]);
  const output = context.reportPath === undefined ? context.flags.output : undefined;
  const isPath = (text: string | undefined): text is string => text !== undefined;
  const outputs = [...named, output, context.reportPath].filter(isPath).filter((text) => /::|:\/\//.test(text));
  const reported = context.reportPath === undefined ? [] : named.filter(isPath);
  if (outputs.length === 0 && reported.length === 0) return;
  const { checkInputsKept, findVaultPath, refuseAddress, refuseVaultPath } = await import(
    "../src/platform/node/files/output-place.ts"
  );
  // The report must not overwrite what the command writes.
  const made = reported.map((path) => ({ path, kind: "vault" as const }));
  if (context.reportPath !== undefined) await checkInputsKept(context.reportPath, made);
  for (const text of outputs) {
    // A path in a vault on a store has its own error.
    if (!text.includes("::") || !isS3Url(text)) refuseAddress(text, command.remoteOutput ?? "none");
    if (text === context.reportPath) continue; // a report is a single file
    if (command.vaultOutput === "single file") await findVaultPath(text);
    else await refuseVaultPath(text, `what tare ${context.command} writes`);
  }
}

function isDamage(code: ExitCode): boolean {
  return code === EXIT.format || code === EXIT.integrity;
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

/** `file:///path` is a path, wherever one is taken. */
function withPaths(command: Command, table: FlagTable, { flags, positionals }: Typed): Typed {
  const { names } = command.positionals;
  const isPath = (i: number): boolean => {
    const name = names[i] ?? names.at(-1) ?? "";
    return INPUT_NAMES.has(name) || PLACE_NAMES.has(name);
  };
  const paths = Object.entries(flags).map(([name, value]) => {
    const { kind } = table[name] ?? {};
    if (kind === "paths") return [name, (value as readonly string[]).map(pathOf)];
    return [name, kind === "path" ? pathOf(value as string) : value];
  });
  return {
    flags: Object.fromEntries(paths) as GlobalFlags,
    positionals: positionals.map((text, i) => (isPath(i) ? pathOf(text) : text)),
  };
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

async function showHelp(args: readonly string[], world: World): Promise<ExitCode> {
  const table = { ...GLOBAL_FLAGS, version: { kind: "switch", short: "V", summary: "show the version" } } as const;
  const { flags, positionals } = parseFlags(args, table, "");
  if (flags.version === true) return showVersion(flags.json, world);
  const [topic, verb] = positionals;
  if (topic !== undefined && isGroup(topic) && verb === undefined) return showGroup(topic, ["--help"], world);
  const command = verb === undefined ? topic : `${topic} ${verb}`;
  if (command !== undefined) return showCommandHelp(command, { ...world, color: flags.color });
  await world.terminal.writeOut(renderHelp(helpColors({ ...world, color: flags.color })));
  return EXIT.success;
}

/** Shows the verbs of a group on request; a group alone does nothing. */
async function showGroup(name: string, args: readonly string[], world: World): Promise<ExitCode> {
  const { flags } = parseFlags(args, GLOBAL_FLAGS, name);
  if (flags.help !== true) {
    const message = `Cannot run "${name}" without a verb`;
    const hint = `List them with: tare ${name} --help`;
    throw new UsageError("usage/arguments", message, { source: "command line" }, { hint });
  }
  await world.terminal.writeOut(renderGroupHelp(name, helpColors({ ...world, color: flags.color })));
  return EXIT.success;
}

async function showVersion(json: true | undefined, { terminal }: World): Promise<ExitCode> {
  const version = packageVersion();
  await terminal.writeOut(json === true ? `${encodeJson({ version }, "compact")}\n` : `tare ${version}\n`);
  return EXIT.success;
}

type HelpWorld = World & { readonly color: GlobalFlags["color"] };

async function showCommandHelp(name: string, world: HelpWorld): Promise<ExitCode> {
  const found = findCommand(name);
  if (found === undefined) throw unknownCommand(name);
  await world.terminal.writeOut(renderCommandHelp(found.entry, await found.entry.load(), helpColors(world)));
  return EXIT.success;
}

function helpColors({ color, terminal, env }: HelpWorld): Colors {
  return chooseColors({ flag: color, isTerminal: terminal.outIsTerminal, env });
}
