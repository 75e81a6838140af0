import type { Flag, FlagTable } from "./flags.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly flags: FlagTable;
  /** Words that the argument may be; file names where absent. */
  readonly choices?: readonly string[];
}

/** Without a trailing newline. */
export function renderCompletion(shell: Shell, commands: readonly CompletedCommand[]): string {
  return { bash: renderBash, zsh: renderZsh, fish: renderFish }[shell](commands);
}

function flagWords(flags: FlagTable): string[] {
  return Object.entries(flags).flatMap(([name, flag]) => {
    return flag.short === undefined ? [`--${name}`] : [`--${name}`, `-${flag.short}`];
  });
}

/** Every flag that takes one of a few words, once. */
function choiceFlags(commands: readonly CompletedCommand[]): Map<string, readonly string[]> {
  const choices = new Map<string, readonly string[]>();
  for (const command of commands) {
    for (const [name, flag] of Object.entries(command.flags)) {
      if (flag.kind !== "choice") continue;
      choices.set(name, [...new Set([...(choices.get(name) ?? []), ...flag.choices])]);
    }
  }
  return choices;
}

/** Flags whose value is neither a choice nor a path: nothing can be suggested for it. */
function freeFlags(commands: readonly CompletedCommand[]): string[] {
  const takes = (flag: Flag): boolean => !["switch", "choice", "path"].includes(flag.kind);
  const names = commands.flatMap((command) => Object.entries(command.flags).filter(([, flag]) => takes(flag)));
  return [...new Set(names.map(([name]) => `--${name}`))];
}

function renderBash(commands: readonly CompletedCommand[]): string {
  const choices = [...choiceFlags(commands)].map(
    ([name, words]) => `    --${name}) COMPREPLY=($(compgen -W "${words.join(" ")}" -- "$current")); return ;;`,
  );
  const cases = commands.map((command) => `    ${command.name}) flags="${flagWords(command.flags).join(" ")}" ;;`);
  const words = commands.flatMap(({ name, choices: own }) =>
    own === undefined ? [] : [`    ${name}) COMPREPLY=($(compgen -W "${own.join(" ")}" -- "$current")); return ;;`],
  );
  return `# bash completion of tare
_tare() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" command="" flags="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ "\${COMP_WORDS[i]}" != -* ]]; then command="\${COMP_WORDS[i]}"; break; fi
  done
  case "$previous" in
${choices.join("\n")}
    ${freeFlags(commands).join("|")}) return ;;
  esac
  if [[ -z "$command" ]]; then
    COMPREPLY=($(compgen -W "${commands.map(({ name }) => name).join(" ")} --help --version" -- "$current"))
    return
  fi
  case "$command" in
${cases.join("\n")}
  esac
  if [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
    return
  fi
  case "$command" in
${words.join("\n")}
  esac
  COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -o bashdefault -F _tare tare`;
}

/** Inside '…' of a zsh spec: quotes end it, brackets and colons delimit. */
function zshText(text: string): string {
  return text.replaceAll("'", "’").replace(/[[\]:\\]/g, "\\$&");
}

function zshFlag(name: string, flag: Flag): string[] {
  const help = `[${zshText(flag.summary)}]`;
  const value = { switch: "", choice: "", path: ":file:_files" }[flag.kind as "switch"] ?? ":value:";
  const action = flag.kind === "choice" ? `:choice:(${flag.choices.join(" ")})` : value;
  const long = `'--${name}${help}${action}'`;
  return flag.short === undefined ? [long] : [long, `'-${flag.short}${help}${action}'`];
}

function renderZsh(commands: readonly CompletedCommand[]): string {
  const list = commands.map(({ name, summary }) => `    '${name}:${zshText(summary)}'`);
  const cases = commands.map(({ name, flags, choices }) => {
    const specs = Object.entries(flags).flatMap(([flagName, flag]) => zshFlag(flagName, flag));
    const rest = choices === undefined ? "'*:file:_files'" : `'1:word:(${choices.join(" ")})'`;
    return `    ${name}) _arguments ${[...specs, rest].join(" ")} ;;`;
  });
  return `#compdef tare
# zsh completion of tare
_tare() {
  local -a commands
  commands=(
${list.join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local command="\${words[2]}"
  shift words
  (( CURRENT-- ))
  case "$command" in
${cases.join("\n")}
  esac
}
if [[ "\${funcstack[1]}" == "_tare" ]]; then _tare "$@"; else compdef _tare tare; fi`;
}

function fishText(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

function renderFish(commands: readonly CompletedCommand[]): string {
  const lines = ["# fish completion of tare"];
  for (const { name, summary } of commands) {
    lines.push(`complete -c tare -n __fish_use_subcommand -f -a ${name} -d ${fishText(summary)}`);
  }
  for (const { name, flags, choices } of commands) {
    const only = `complete -c tare -n '__fish_seen_subcommand_from ${name}'`;
    if (choices !== undefined) lines.push(`${only} -f -a '${choices.join(" ")}'`);
    for (const [flagName, flag] of Object.entries(flags)) {
      const short = flag.short === undefined ? "" : ` -s ${flag.short}`;
      const value = { switch: "", path: " -r -F" }[flag.kind as "switch"] ?? " -x";
      const words = flag.kind === "choice" ? ` -a '${flag.choices.join(" ")}'` : "";
      lines.push(`${only} -l ${flagName}${short}${value}${words} -d ${fishText(flag.summary)}`);
    }
  }
  return lines.join("\n");
}
