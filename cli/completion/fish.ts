import {
  byValue,
  type Completed,
  type CompletedCommand,
  type CompletedFlag,
  type CompletedProgram,
  type Verb,
  verbsOf,
} from "./words.ts";

/** The script for fish: one function finds what is asked for, so that fish tests two conditions and not hundreds. */
export function renderFish(program: CompletedProgram): string {
  const { commands, groups, flags } = program;
  const names = commands.filter(({ aliases }) => aliases.length > 0);
  return `# fish completion of tare

function __tare_verbs
    switch "$argv[1]"
        case ""
${listed(verbsOf(program))}
${groups.map((group) => `        case ${group}\n${listed(verbsOf(program, group))}`).join("\n")}
    end
end

# The name of a command that was typed by another one.
function __tare_name
    switch "$argv[1]"
${names.map(({ name, aliases }) => `        case ${aliases.map(quoted).join(" ")}\n            echo ${quoted(name)}`).join("\n")}
        case "*"
            echo $argv[1]
    end
end

# The flags of a command, with what they do.
function __tare_flags
    switch "$argv[1]"
${commands
  .filter((command) => command.flags.length > 0)
  .map(({ name, flags: own }) => `        case ${quoted(name)}\n${own.flatMap(flagLines).join("\n")}`)
  .join("\n")}
        case ""
            printf '%s\\t%s\\n' --version 'show the version' -V 'show the version'
    end
${flags.flatMap(flagLines).join("\n")}
end

# What the value of a flag can be, then the words; nothing for a switch.
function __tare_value
    switch "$argv[1] $argv[2]"
${commands.flatMap((command) => valueCases(command.flags, `${command.name} `)).join("\n")}
        case "*"
            switch "$argv[2]"
${valueCases(flags, "").join("\n")}
            end
    end
end

# What an argument of a command can be: its place is the second word.
function __tare_argument
    switch "$argv[1] $argv[2]"
${commands.flatMap(argumentCases).join("\n")}
    end
end

# What the command line asks for at the cursor: "files", "folders", or lines of words with what they mean.
function __tare_asked
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l name ""
    set -l flag ""
    set -l use ""
    set -l place 0
    set -l only ""
    for word in $typed[2..-1]
        if test -n "$flag"; and begin
                test "$use" = required; or string match -qr '^[0-9]' -- $word
            end
            set flag ""
            continue
        end
        set flag ""
        if test -z "$only"; and test "$word" = --
            set only 1
            continue
        end
        if test -z "$only"; and string match -q -- '-?*' $word
            set -l value (__tare_value $name $word)
            if set -q value[1]
                set flag $word
                set use $value[1]
            end
            continue
        end
        switch "$name"
            case ""
                set name (__tare_name $word)
            case ${groups.join(" ")}
                set name (__tare_name "$name $word")
            case "*"
                set place (math $place + 1)
        end
    end
    if test -n "$flag"; and test "$use" = required
        set -l value (__tare_value $name $flag)
        if set -q value[2]
            printf '%s\\n' $value[2..-1]
        end
    else if test -z "$only"; and string match -q -- '--*=*' $current
        set -l parts (string split -m 1 = -- $current)
        set -l value (__tare_value $name $parts[1])
        switch "$value[2]"
            case ""
            case files folders
                echo $value[2]
            case "*"
                printf "$parts[1]=%s\\n" $value[2..-1]
        end
    else if test -z "$only"; and string match -q -- '-*' $current
        __tare_flags $name
    else
        switch "$name"
            case "" ${groups.join(" ")}
                __tare_verbs $name
            case "*"
                __tare_argument $name $place
        end
    end
end

function __tare_wants
    test (__tare_asked)[1] = $argv[1] 2>/dev/null
end

# Fish would look for what was typed in what words mean, too.
function __tare_words
    set -l current (commandline -ct | string unescape)
    set -l before '^[^\\t]*'
    if string match -q -- '-*' $current
        set before '^'
    end
    __tare_asked | string match -vr '^(files|folders)$' | string match -er -- $before(string escape --style=regex -- $current)
end

complete -c tare -e
complete -c tare -f
complete -c tare -n '__tare_wants files' -F
complete -c tare -n '__tare_wants folders' -a '(__fish_complete_directories (commandline -ct))'
complete -c tare -a '(__tare_words)'`;
}

function listed(verbs: readonly Verb[]): string {
  return verbs.map(({ word, summary }) => described(word, summary)).join("\n");
}

function flagLines({ names, summary }: CompletedFlag): string[] {
  return names.map((name) => described(name, summary));
}

function described(word: string, summary: string): string {
  return `            printf '%s\\t%s\\n' ${word} ${quoted(summary)}`;
}

function valueCases(flags: readonly CompletedFlag[], prefix: string): string[] {
  return byValue(flags).map((group) => {
    const patterns = group.flatMap(({ names }) => names.map((name) => quoted(`${prefix}${name}`)));
    const [{ completed, value }] = group as readonly [CompletedFlag];
    return `        case ${patterns.join(" ")}\n            printf '%s\\n' ${value?.use} ${printed(completed)}`;
  });
}

function argumentCases({ name, arguments: all, rest }: CompletedCommand): string[] {
  return all.flatMap(({ completed }, i) => {
    if (completed.kind === "nothing") return [];
    const place = rest === "last repeats" && i === all.length - 1 ? "*" : String(i);
    return [`        case ${quoted(`${name} ${place}`)}\n            printf '%s\\n' ${printed(completed)}`];
  });
}

function printed(completed: Completed): string {
  if (completed.kind === "words") return completed.words.map(quoted).join(" ");
  return completed.kind === "nothing" ? "" : completed.kind;
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
