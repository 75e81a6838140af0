import {
  type Completed,
  type CompletedCommand,
  type CompletedFlag,
  type CompletedProgram,
  type Verb,
  verbsOf,
} from "./words.ts";

/** The script for zsh: its own `_arguments` completes flags and arguments, once the command is found. */
export function renderZsh(program: CompletedProgram): string {
  const { commands, groups, flags } = program;
  const valued = flags.filter(({ value }) => value?.use === "required").flatMap(({ names }) => names);
  const version = [`'(- *)'{-V,--version}'[show the version]'`];
  return `#compdef tare
# zsh completion of tare

_tare_commands() {
  local -a verbs
  case "$1" in
    "") verbs=(
${verbsOf(program).map(verbLine).join("\n")}
    ) ;;
${groups
  .map((group) => `    ${group}) verbs=(\n${verbsOf(program, group).map(verbLine).join("\n")}\n    ) ;;`)
  .join("\n")}
  esac
  _describe -t commands 'command' verbs
}

_tare() {
  local command="" word i=2
  # Flags of every command may come before its name.
  while (( i < CURRENT )); do
    word="\${words[i]}"
    case "$word" in
      ${valued.join("|")}) (( i += 2 )) ;;
      -?*) (( i++ )) ;;
      *)
        command="\${command:+$command }$word"
        words[i]=()
        (( CURRENT-- ))
        [[ "$command" == (${groups.join("|")}) ]] || break ;;
    esac
  done
  local -a shared
  shared=(
${flags.flatMap(flagSpecs).map(indented).join("\n")}
  )
  case "$command" in
    ""|${groups.join("|")}) _arguments -s -S "\${shared[@]}" ${version.join(" ")} "1:command: _tare_commands '$command'" ;;
${commands.map(commandCase).join("\n")}
  esac
}
if [[ "\${funcstack[1]}" == "_tare" ]]; then _tare "$@"; else compdef _tare tare; fi`;
}

function commandCase({ name, aliases, flags, arguments: all, rest }: CompletedCommand): string {
  const specs = all.map(({ label, completed }, i) => {
    const place = rest === "last repeats" && i === all.length - 1 ? "*" : i + 1;
    return quoted(`${place}:${escaped(label)}:${action(completed)}`);
  });
  const names = [name, ...aliases].map((one) => `"${one}"`).join("|");
  return `    ${names}) _arguments -s -S "\${shared[@]}" \\\n${[...flags.flatMap(flagSpecs), ...specs]
    .map(indented)
    .join(" \\\n")} ;;`;
}

function indented(spec: string): string {
  return `      ${spec}`;
}

function verbLine({ word, summary }: Verb): string {
  return `      ${quoted(`${escaped(word)}:${summary}`)}`;
}

/** One spec for each name of the flag; using one rules out the others, unless the flag is repeatable. */
function flagSpecs({ names, summary, value, completed, use }: CompletedFlag): string[] {
  const once = use === "repeated" ? "*" : `(${names.join(" ")})`;
  return names.map((name) => {
    const help = `[${summary.replace(/[[\]\\]/g, "\\$&")}]`;
    if (value === undefined) return quoted(`${once}${name}${help}`);
    const isLong = name.startsWith("--");
    // "=-": an optional value is part of the same word.
    const joint = value.use === "optional" ? "=-" : isLong ? "=" : "+";
    const colons = value.use === "optional" ? "::" : ":";
    return quoted(`${once}${name}${joint}${help}${colons}${escaped(value.label)}:${action(completed)}`);
  });
}

function action(completed: Completed): string {
  switch (completed.kind) {
    case "words":
      return `(${completed.words.join(" ")})`;
    case "files":
      return "_files";
    case "folders":
      return "_files -/";
    default:
      return " ";
  }
}

/** Colons delimit the parts of a spec, and a percent sign begins an escape in what zsh shows. */
function escaped(text: string): string {
  return text.replace(/[:\\]/g, "\\$&").replaceAll("%", "%%");
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
