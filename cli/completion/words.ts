import { type Command, type CommandEntry, INPUT_NAMES, PLACE_NAMES } from "../command.ts";
import { type Flag, type FlagTable, GLOBAL_FLAGS } from "../flags/flags.ts";

/** What can follow on a command line, made of the registry of commands: the scripts of all shells say the same. */

/** What an argument or a flag's value can be. */
export type Completed =
  | { readonly kind: "files" | "folders" | "nothing" }
  | { readonly kind: "words"; readonly words: readonly string[] };

export interface CompletedFlag {
  /** As typed: "--type" and "-t". */
  readonly names: readonly string[];
  readonly summary: string;
  /** Placeholder of the value, and whether the flag needs one. */
  readonly value: { readonly label: string; readonly use: "required" | "optional" } | undefined;
  readonly completed: Completed;
  readonly use: "once" | "repeated";
}

export interface CompletedArgument {
  /** As usage names it: "VAULT". */
  readonly label: string;
  readonly completed: Completed;
}

export interface CompletedCommand {
  /** "ls", or "vault ls" for a verb of a group. */
  readonly name: string;
  readonly aliases: readonly string[];
  readonly summary: string;
  /** Its own flags; those of every command come with them. */
  readonly flags: readonly CompletedFlag[];
  readonly arguments: readonly CompletedArgument[];
  /** What follows the arguments: the last one again, or nothing. */
  readonly rest: "last repeats" | "nothing";
}

export interface CompletedProgram {
  readonly commands: readonly CompletedCommand[];
  /** First words that need a verb after them: "vault". */
  readonly groups: readonly string[];
  /** Flags that every command takes. */
  readonly flags: readonly CompletedFlag[];
}

const NOTHING = { kind: "nothing" } as const;
const FILES = { kind: "files" } as const;
const FOLDERS = { kind: "folders" } as const;

export function completedProgram(
  loaded: readonly { readonly entry: CommandEntry; readonly command: Command }[],
): CompletedProgram {
  const commands = loaded.map(({ entry, command }) => completedCommand(entry, command));
  const groups = new Set(commands.filter(({ name }) => name.includes(" ")).map(({ name }) => firstWord(name)));
  return { commands: [...commands, helpCommand(loaded)], groups: [...groups], flags: completedFlags(GLOBAL_FLAGS) };
}

/** A word that can be typed where a command or a verb is expected. */
export interface Verb {
  readonly word: string;
  readonly summary: string;
}

/** The first words of all commands, or the verbs of one group. */
export function verbsOf({ commands, groups }: CompletedProgram, group?: string): readonly Verb[] {
  if (group === undefined) {
    const grouped = groups.map((word) => ({ word, summary: `verbs of ${word}` }));
    return [...commands.filter(({ name }) => !name.includes(" ")).flatMap(words), ...grouped];
  }
  return commands.filter(({ name }) => name.startsWith(`${group} `)).flatMap(words);
}

function words({ name, aliases, summary }: CompletedCommand): Verb[] {
  return [name, ...aliases].map((one) => ({ word: one.slice(one.indexOf(" ") + 1), summary }));
}

/** Runs of the same value: one line of a script for all flags that take the same. */
export function byValue(flags: readonly CompletedFlag[]): readonly (readonly CompletedFlag[])[] {
  const valued = flags.filter(({ value }) => value !== undefined);
  const groups = new Map<string, CompletedFlag[]>();
  for (const flag of valued) {
    const key = JSON.stringify([flag.completed, flag.value?.use]);
    groups.set(key, [...(groups.get(key) ?? []), flag]);
  }
  return [...groups.values()];
}

function firstWord(name: string): string {
  return name.split(" ")[0] as string;
}

/** `tare help COMMAND` is no command of the registry. */
function helpCommand(loaded: readonly { readonly entry: CommandEntry }[]): CompletedCommand {
  const topics = [...new Set(loaded.map(({ entry }) => firstWord(entry.name)))];
  const argument = { label: "COMMAND", completed: { kind: "words", words: topics } } as const;
  const shared = { aliases: [], flags: [], rest: "nothing" } as const;
  return { name: "help", summary: "flags and examples of a command", arguments: [argument], ...shared };
}

function completedCommand(entry: CommandEntry, command: Command): CompletedCommand {
  const { names, max, words: known } = command.positionals;
  return {
    name: entry.name,
    aliases: entry.aliases.map(({ name }) => name),
    summary: entry.summary,
    // A flag of every command is offered once, also where a command says what it means there.
    flags: completedFlags(
      Object.fromEntries(Object.entries(command.flags).filter(([name]) => !(name in GLOBAL_FLAGS))),
    ),
    arguments: names.map((label) => ({ label, completed: completedArgument(label, known) })),
    rest: max > names.length ? "last repeats" : "nothing",
  };
}

function completedArgument(label: string, known: Command["positionals"]["words"]): Completed {
  const given = known?.[label];
  if (given !== undefined) return { kind: "words", words: given() };
  // "export|embed|strip" lists words, and "update" is one.
  if (/^[a-z]/.test(label)) return { kind: "words", words: label.split("|") };
  if (label === "DIR") return FOLDERS;
  return INPUT_NAMES.has(label) || PLACE_NAMES.has(label) ? FILES : NOTHING;
}

function completedFlags(table: FlagTable): CompletedFlag[] {
  return Object.entries(table).map(([name, flag]) => ({
    names: flag.short === undefined ? [`--${name}`] : [`--${name}`, `-${flag.short}`],
    summary: flag.summary,
    value: placeholderOf(flag),
    completed: completedValue(flag),
    use: flag.kind === "list" ? "repeated" : "once",
  }));
}

function placeholderOf(flag: Flag): CompletedFlag["value"] {
  if (flag.kind === "switch") return undefined;
  const label = flag.kind === "choice" ? "CHOICE" : flag.value;
  return { label, use: flag.kind === "optional-size" ? "optional" : "required" };
}

function completedValue(flag: Flag): Completed {
  if (flag.kind === "choice") return { kind: "words", words: flag.choices };
  if (flag.kind === "path" || flag.kind === "paths") return flag.value === "DIR" ? FOLDERS : FILES;
  const suggests = "suggests" in flag ? flag.suggests : undefined;
  return suggests === undefined ? NOTHING : { kind: "words", words: suggests };
}
