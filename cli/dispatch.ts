import { UsageError } from "../src/base/errors.ts";
import { isS3Url } from "../src/bytes/s3/address.ts";
import type { InputFile } from "../src/platform/node/output-place.ts";
import { type Alias, type Command, INPUT_NAMES } from "./command.ts";
import { commandNames, findCommand, isGroup } from "./commands/registry.ts";
import { type Context, type ContextOptions, createContext } from "./context.ts";
import { EXIT, type ExitCode, exitCodeOf } from "./exit-codes.ts";
import { type FlagTable, parseFlags } from "./flags.ts";
import { GLOBAL_FLAGS, type GlobalFlags } from "./global-flags.ts";
import { nearest } from "./nearest.ts";
import { checkAbsent } from "./output-target.ts";
import { type Colors, chooseColors } from "./render/colors.ts";
import { encodeJson } from "./render/json.ts";
import { readVersion } from "./version.ts";
/** What a run has to do with outside of its arguments. */
export type World = Pick<ContextOptions, "env" | "terminal" | "signal" | "onExit">;

interface SplitCommand {
  readonly name: string | undefined;
  readonly rest: string[];
}

/** Splits off the command's name, of two words for a verb of a group: global flags may stand before either. */
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
  const adapted = adaptAlias(found.alias, { flags: flags as GlobalFlags, positionals });
  checkPositionals(command, adapted.positionals, found.entry.usage);
  const context = createContext({
    command: found.entry.name,
    flags: adapted.flags,
    ...world,
    reportPath: command.output === "report" && adapted.flags.output !== "-" ? adapted.flags.output : undefined,
    inputs: await findInputs(command, table, adapted),
  });
  return runCommand(command, context, adapted.positionals);
}

async function runCommand(command: Command, context: Context, positionals: readonly string[]): Promise<ExitCode> {
  let damaged = false;
  try {
    await checkOutputs(command, context, positionals);
    if (context.reportPath !== undefined) await checkAbsent(context, context.reportPath);
    const code = await command.run(context, { flags: context.flags as never, positionals });
    damaged = isDamage(code);
    return code;
  } catch (error) {
    damaged = isDamage(exitCodeOf(error));
    throw error;
  } finally {
    await context.close();
    // Bytes that cannot be right may be so only in the cache: the next run asks the server.
    if (damaged) await context.distrust();
  }
}

/**
 * Whoever names an output VAULT::path means it to be encrypted: it goes there, or nowhere. An address is no path on disk
 * either.
 */
async function checkOutputs(command: Command, context: Context, positionals: readonly string[]): Promise<void> {
  const named = (command.writes ?? []).map((position) => positionals[position]);
  const output = context.reportPath === undefined ? context.flags.output : undefined;
  const isPath = (text: string | undefined): text is string => text !== undefined;
  const outputs = [...named, output, context.reportPath].filter(isPath).filter((text) => /::|:\/\//.test(text));
  const reported = context.reportPath === undefined ? [] : named.filter(isPath);
  if (outputs.length === 0 && reported.length === 0) return;
  const { checkInputsKept, findVaultPath, refuseAddress, refuseVaultPath } = await import(
    "../src/platform/node/output-place.ts"
  );
  // What a command makes must not give way to the report about it.
  const made = reported.map((path) => ({ path, kind: "vault" as const }));
  if (context.reportPath !== undefined) await checkInputsKept(context.reportPath, made);
  for (const text of outputs) {
    // A path in a vault of a store has an error of its own.
    if (!text.includes("::") || !isS3Url(text)) refuseAddress(text, command.remoteOutput ?? "none");
    if (text === context.reportPath) continue; // a report is a single file
    if (command.vaultOutput === "single file") await findVaultPath(text);
    else await refuseVaultPath(text, `what tare ${context.command} writes`);
  }
}

/** The files that the arguments name and that are read: what is written is compared with them. */
async function findInputs(command: Command, table: FlagTable, { flags, positionals }: Typed): Promise<InputFile[]> {
  const writes = new Set(command.writes);
  if (flags.output === undefined && writes.size === 0) return [];
  const { names } = command.positionals;
  const targets = positionals.filter((_, i) => !writes.has(i) && INPUT_NAMES.has(names[i] ?? names.at(-1) ?? ""));
  const { localFileOf } = await import("../src/platform/node/open-target.ts");
  const found = await Promise.all(
    targets.map(async (text): Promise<InputFile> => {
      const file = await localFileOf(text);
      return { path: file ?? text, kind: file !== undefined && file !== text ? "vault" : "plain" };
    }),
  );
  const given = Object.entries(flags as Readonly<Record<string, unknown>>).filter(
    ([name, value]) => name !== "output" && table[name]?.kind === "path" && typeof value === "string",
  );
  return [...found, ...given.map(([, value]) => ({ path: value as string, kind: "plain" as const }))];
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
  const { renderHelp } = await import("./help.ts");
  await world.terminal.writeOut(renderHelp(helpColors({ ...world, color: flags.color })));
  return EXIT.success;
}

/** The verbs of a group, where they were asked for; a group alone does nothing. */
async function showGroup(name: string, args: readonly string[], world: World): Promise<ExitCode> {
  const { flags } = parseFlags(args, GLOBAL_FLAGS, name);
  if (flags.help !== true) {
    const message = `Cannot run "${name}" without a verb`;
    const hint = `List them with: tare ${name} --help`;
    throw new UsageError("usage/arguments", message, { source: "command line" }, { hint });
  }
  const { renderGroupHelp } = await import("./help.ts");
  await world.terminal.writeOut(renderGroupHelp(name, helpColors({ ...world, color: flags.color })));
  return EXIT.success;
}

async function showVersion(json: true | undefined, { terminal }: World): Promise<ExitCode> {
  const version = readVersion();
  await terminal.writeOut(json === true ? `${encodeJson({ version }, "compact")}\n` : `tare ${version}\n`);
  return EXIT.success;
}

type HelpWorld = World & { readonly color: GlobalFlags["color"] };

async function showCommandHelp(name: string, world: HelpWorld): Promise<ExitCode> {
  const found = findCommand(name);
  if (found === undefined) throw unknownCommand(name);
  const { renderCommandHelp } = await import("./help.ts");
  await world.terminal.writeOut(renderCommandHelp(found.entry, await found.entry.load(), helpColors(world)));
  return EXIT.success;
}

function helpColors({ color, terminal, env }: HelpWorld): Colors {
  return chooseColors({ flag: color, isTerminal: terminal.outIsTerminal, env });
}
