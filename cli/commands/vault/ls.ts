import { defineCommand } from "../../command.ts";
import { showEntries } from "../ls.ts";
import { openArchive } from "./open-vault.ts";

export const vaultLsCommand = defineCommand({
  positionals: { names: ["VAULT", "GLOB"], min: 1, max: 2 },
  flags: {
    long: { kind: "switch", short: "l", summary: "exact sizes, times and permissions too" },
  },
  details: [
    "One line an entry: size, time, path; directories end in a slash. Reads the manifest only, whatever the vault holds. In a GLOB, * crosses slashes.",
  ],
  examples: [
    { command: "tare vault ls models.aerovault", says: "everything" },
    { command: 'tare vault ls models.aerovault "*.gguf" --json', says: "some of it, for scripts" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [target = "", ...globs] = positionals;
    const { container, label } = await openArchive(context, target);
    return showEntries(container, { globs, label, detail: flags.long === true ? "long" : "short" }, context);
  },
});
