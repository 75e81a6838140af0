import {
  byValue,
  type Completed,
  type CompletedCommand,
  type CompletedFlag,
  type CompletedProgram,
  verbsOf,
} from "./words.ts";

/**
 * The script for bash. It runs no program, so an answer comes at once. Files are left to readline, which keeps names
 * with spaces one word; it needs neither the package bash-completion nor more than bash 3.2.
 */
export function renderBash(program: CompletedProgram): string {
  const { commands, groups, flags } = program;
  const first = verbsOf(program).map(({ word }) => word);
  const verbs = groups.map((group) => {
    const words = verbsOf(program, group).map(({ word }) => word);
    return `    ${group}) words="${words.join(" ")}" ;;`;
  });
  return `# bash completion of tare

# The words after a group; the commands if there is none.
_tare_verbs() {
  case "$1" in
    "") words="${first.join(" ")}" ;;
${verbs.join("\n")}
  esac
}

# The name of a command that was typed by another one.
_tare_name() {
  case "$1" in
${commands.flatMap(aliasCase).join("\n")}
  esac
}

# The flags of a command.
_tare_flags() {
  case "$1" in
${commands.flatMap(flagsCase).join("\n")}
  esac
  words="$words ${flags.flatMap(({ names }) => names).join(" ")}"
}

# What the value of a flag can be; nothing is set for a switch.
_tare_value() {
  case "$1 $2" in
${commands.flatMap((command) => valueCases(command.flags, `${command.name} `)).join("\n")}
    *)
      case "$2" in
${valueCases(flags, "")
  .map((line) => `    ${line}`)
  .join("\n")}
      esac ;;
  esac
}

# What an argument of a command can be: its place is $2.
_tare_argument() {
  case "$1 $2" in
${commands.flatMap(argumentCases).join("\n")}
  esac
}

_tare() {
  local line="\${COMP_LINE:0:COMP_POINT}" command="" flag="" kind="" words="" use="" place=0 only="" i word
  local -a typed=()
  # Readline cuts words at "=" and ":"; here they are whole again.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    if [[ $i == 0 || $line == [[:space:]]* ]]; then typed+=("$word"); else typed[\${#typed[@]}-1]+="$word"; fi
    line="\${line#"\${line%%[![:space:]]*}"}"
    line="\${line#"$word"}"
  done
  local last=$((\${#typed[@]} - 1)) current="\${COMP_WORDS[COMP_CWORD]}"
  for ((i = 1; i < last; i++)); do
    word="\${typed[i]}"
    if [[ -n $flag && ( $use == required || $word == [0-9]* ) ]]; then flag=""; continue; fi
    flag=""
    if [[ -z $only && $word == -- ]]; then only=1; continue; fi
    if [[ -z $only && $word == -?* ]]; then
      kind="" use=""
      _tare_value "$command" "$word"
      if [[ -n $kind ]]; then flag="$word"; fi
      continue
    fi
    case "$command" in
      "") command="$word"; _tare_name "$command" ;;
      ${groups.join("|")}) command="$command $word"; _tare_name "$command" ;;
      *) place=$((place + 1)) ;;
    esac
  done
  kind="" words=""
  if [[ -n $flag && $use == required ]]; then _tare_value "$command" "$flag"
  elif [[ -z $only && \${typed[last]} == --*=* ]]; then
    _tare_value "$command" "\${typed[last]%%=*}"
    if [[ $current == "=" ]]; then current=""; fi
  elif [[ -z $only && $current == -* ]]; then
    kind=words
    _tare_flags "$command"
    if [[ -z $command ]]; then words="$words --version -V"; fi
  else
    case "$command" in
      ""|${groups.join("|")}) kind=words; _tare_verbs "$command" ;;
      *) _tare_argument "$command" "$place" ;;
    esac
  fi
  COMPREPLY=()
  case "$kind" in
    files) ;;
    folders) compopt +o default -o dirnames 2>/dev/null ;;
    *)
      compopt +o default +o bashdefault 2>/dev/null
      if [[ -n $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$current")); fi ;;
  esac
}
complete -o bashdefault -o default -F _tare tare`;
}

function aliasCase({ name, aliases }: CompletedCommand): string[] {
  if (aliases.length === 0) return [];
  return [`    ${aliases.map((alias) => `"${alias}"`).join("|")}) command="${name}" ;;`];
}

function flagsCase({ name, flags }: CompletedCommand): string[] {
  if (flags.length === 0) return [];
  return [`    "${name}") words="${flags.flatMap(({ names }) => names).join(" ")}" ;;`];
}

function valueCases(flags: readonly CompletedFlag[], prefix: string): string[] {
  return byValue(flags).map((group) => {
    const patterns = group.flatMap(({ names }) => names.map((name) => `"${prefix}${name}"`));
    const [{ completed, value }] = group as readonly [CompletedFlag];
    return `    ${patterns.join("|")}) use=${value?.use}; ${assigned(completed)} ;;`;
  });
}

function argumentCases({ name, arguments: all, rest }: CompletedCommand): string[] {
  return all.map(({ completed }, i) => {
    const pattern = rest === "last repeats" && i === all.length - 1 ? `"${name} "*` : `"${name} ${i}"`;
    return `    ${pattern}) ${assigned(completed)} ;;`;
  });
}

function assigned(completed: Completed): string {
  return completed.kind === "words" ? `kind=words words="${completed.words.join(" ")}"` : `kind=${completed.kind}`;
}
