import type { CommandEntry } from "../command.ts";
import { defineCommand } from "../command.ts";
import { type CompletedCommand, renderCompletion, SHELLS, type Shell } from "../completion-scripts.ts";
import { EXIT } from "../exit-codes.ts";
import type { FlagTable } from "../flags.ts";
import { GLOBAL_FLAGS } from "../global-flags.ts";
import { badValue } from "../quantities.ts";

export const completionCommand = defineCommand({
  positionals: { names: ["SHELL"], min: 1, max: 1 },
  flags: {},
  details: ["Prints a script that completes commands, flags, their choices, and file names."],
  examples: [
    { command: "source <(tare completion bash)", says: "in ~/.bashrc" },
    { command: "tare completion zsh > ~/.zfunc/_tare", says: "once, for zsh, with ~/.zfunc in fpath" },
    { command: "tare completion fish > ~/.config/fish/completions/tare.fish", says: "once, for fish" },
  ],
  output: "report",
  async run(context, { positionals }) {
    const [text = ""] = positionals;
    const shell = SHELLS.find((candidate) => candidate === text);
    if (shell === undefined) throw badValue("completion", text, SHELLS.join(", ").replace(/, ([^,]*)$/, " or $1"));
    const script = await makeScript(shell);
    await context.show({ json: () => ({ shell, script }), text: () => script });
    return EXIT.success;
  },
});

async function makeScript(shell: Shell): Promise<string> {
  // The table is loaded here, not above: the table itself loads this command.
  const { loadCommands } = await import("./registry.ts");
  const loaded = await loadCommands();
  const words = loaded.flatMap(({ entry, command }) => complete(entry, command.flags));
  return renderCompletion(shell, mergeGroups(words));
}

/** The verbs of a group become the choices of its first word, with the flags of them all. */
function mergeGroups(commands: readonly CompletedCommand[]): CompletedCommand[] {
  const merged = new Map<string, CompletedCommand>();
  for (const command of commands) {
    const [group = "", verb] = command.name.split(" ");
    const known = merged.get(group);
    if (verb === undefined) merged.set(group, command);
    else {
      const flags = { ...known?.flags, ...command.flags };
      const summary = known === undefined ? `verbs of ${group}` : known.summary;
      merged.set(group, { name: group, summary, flags, choices: [...(known?.choices ?? []), verb] });
    }
  }
  return [...merged.values()];
}

/** Aliases complete like the command they stand for. */
function complete(entry: CommandEntry, flags: FlagTable): CompletedCommand[] {
  const choices = entry.name === "completion" ? SHELLS : undefined;
  const shared = {
    summary: entry.summary,
    flags: { ...flags, ...GLOBAL_FLAGS },
    ...(choices === undefined ? {} : { choices }),
  };
  return [entry.name, ...entry.aliases.map((alias) => alias.name)].map((name) => ({ name, ...shared }));
}
