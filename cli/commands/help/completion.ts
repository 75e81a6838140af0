import { defineCommand } from "../../command.ts";
import { renderBash } from "../../completion/bash.ts";
import { renderFish } from "../../completion/fish.ts";
import { completedProgram } from "../../completion/words.ts";
import { renderZsh } from "../../completion/zsh.ts";
import { EXIT } from "../../exit-codes.ts";
import { badValue } from "../../flags/quantities.ts";

const SCRIPTS = { bash: renderBash, zsh: renderZsh, fish: renderFish } as const;
type Shell = keyof typeof SCRIPTS;
const SHELLS = Object.keys(SCRIPTS) as Shell[];

export const completionCommand = defineCommand({
  positionals: { names: ["SHELL"], min: 1, max: 1, words: { SHELL: () => SHELLS } },
  flags: {},
  details: [
    "Prints a script that completes commands, their flags, what flags and arguments can be, and file names. The script runs nothing, so it answers at once; make it again after an update.",
  ],
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
    // The table is loaded here, not above, because the table itself loads this command.
    const { loadCommands } = await import("../registry.ts");
    const script = SCRIPTS[shell](completedProgram(await loadCommands()));
    await context.show({ json: () => ({ shell, script }), text: () => script });
    return EXIT.success;
  },
});
