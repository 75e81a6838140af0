import { defineCommand } from "../../command.ts";
import { showArchiveDiff } from "../archive-diff.ts";
import { openArchive } from "./open-vault.ts";

export const vaultDiffCommand = defineCommand({
  positionals: { names: ["A", "B"], min: 2, max: 2 },
  flags: {
    "exit-code": { kind: "switch", summary: "exit 3 where the two differ" },
  },
  details: [
    "Entries are compared by path, type and content; times and permissions do not count. Between states of one vault contents are compared by their chunk ids, without reading them; between other vaults byte by byte. One password serves both.",
  ],
  examples: [{ command: "tare vault diff old.aerovault new.aerovault --exit-code", says: "what changed since?" }],
  output: "report",
  async run(context, { flags, positionals }) {
    const [first = "", second = ""] = positionals;
    const a = await openArchive(context, first);
    const b = await openArchive(context, second);
    return showArchiveDiff([a.container, b.container], flags["exit-code"], context);
  },
});
