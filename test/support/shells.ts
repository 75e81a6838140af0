import { execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** Real shells, in which a user types and presses Tab. */

export type Shell = "bash" | "zsh" | "fish";

export function hasShell(shell: Shell): boolean {
  return spawnSync(shell, ["-c", "exit 0"]).status === 0;
}

/** The title of what needs a shell: says what to install where it is missing. */
export function titleFor(shell: Shell): string {
  return hasShell(shell) ? `in ${shell}` : `in ${shell}: not tried, install it first (apt-get install ${shell})`;
}

/** What `tare` gets as its last word when each line is typed, and Tab and Enter pressed. */
export function pressTab(shell: "bash" | "zsh", folder: string, script: string, lines: readonly string[]): string[] {
  const seen = shell === "bash" ? typeInBash(folder, script, lines) : typeInZsh(folder, script, lines);
  const answers = [...seen.matchAll(/^got((?:<[^>\n]*>)*)/gm)].map(([, words = ""]) => words);
  return answers.map((words) => /<([^>]*)>$/.exec(words)?.[1] ?? "nothing was run");
}

const TARE = `tare() { printf '<%s>' "$@" | sed 's/^/got/'; echo; }`;

/** Interactive bash reads its keys from a pipe too. */
function typeInBash(cwd: string, script: string, lines: readonly string[]): string {
  const init = join(cwd, ".bashrc");
  writeFileSync(init, `${TARE}\nPS1=\nsource '${script}'\nbind 'set bell-style none'\n`);
  const input = lines.map((line) => `${line}\t\n`).join("");
  const env = { ...process.env, INPUTRC: "/dev/null", HISTFILE: "", TERM: "dumb" };
  const done = spawnSync("bash", ["--rcfile", init, "-i"], { cwd, input, env, encoding: "utf8" });
  return done.stdout;
}

/** Zsh wants a terminal, and has one for its own scripts. */
function typeInZsh(cwd: string, script: string, lines: readonly string[]): string {
  const program = `
zmodload zsh/zpty zsh/zselect
zpty -b shell 'TERM=dumb exec zsh -f -i'
seen=""
until_seen() {
  local piece
  seen=""
  repeat 2000; do
    while zpty -r shell piece; do seen+="$piece"; done
    [[ "$seen" == *$1* ]] && return
    zselect -t 2
  done
}
zpty -w shell ${quote(`PROMPT='' RPROMPT=''; unsetopt beep prompt_sp; unset zle_bracketed_paste; ${TARE}`)}
zpty -w shell ${quote(`autoload -Uz compinit; compinit -u -D; source '${script}'; echo REA''DY`)}
until_seen READY
for line in ${lines.map(quote).join(" ")}; do
  zpty -w -n shell "$line"$'\\t\\n'
  until_seen 'got<'
  print -r -- "$seen"
done`;
  return execFileSync("zsh", ["-f", "-c", program], { cwd, encoding: "utf8", timeout: 60_000 }).replaceAll("\r", "");
}

/** What fish offers for each line, without descriptions. */
export function offeredByFish(cwd: string, script: string, lines: readonly string[]): string[][] {
  const asked = lines.map((line) => `complete -C ${quote(line)} | string replace -r '\\t.*' ''; echo ----`);
  const program = [`source '${script}'`, ...asked].join("\n");
  const out = execFileSync("fish", ["--no-config", "-c", program], { cwd, encoding: "utf8" });
  return out
    .split("----\n")
    .slice(0, -1)
    .map((block) => block.split("\n").filter((line) => line !== ""));
}

/** What bash's function offers for each line: the words, or nothing where readline completes files. */
export function offeredByBash(cwd: string, script: string, lines: readonly string[]): string[][] {
  const asked = lines.map((line) => {
    const words = line.split(" ");
    const set = `COMP_LINE=${quote(line)} COMP_POINT=${line.length} COMP_WORDS=(${words.map(quote).join(" ")})`;
    return `${set}; COMP_CWORD=${words.length - 1}; _tare; printf '%s\\n' "\${COMPREPLY[@]}" ----`;
  });
  const program = [`source '${script}'`, "compopt() { :; }", ...asked].join("\n");
  const out = execFileSync("bash", ["-c", program], { cwd, encoding: "utf8", maxBuffer: 1 << 26 });
  return out
    .split("----\n")
    .slice(0, -1)
    .map((block) => block.split("\n").filter((line) => line !== ""));
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
