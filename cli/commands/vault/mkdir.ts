import { defineCommand } from "../../command.ts";
import { plural } from "../../render/sizes.ts";
import { changeEntries, entryPath } from "./change.ts";

export const vaultMkdirCommand = defineCommand({
  positionals: { names: ["VAULT", "ENTRY"], min: 2, max: Number.MAX_SAFE_INTEGER },
  flags: {},
  details: [
    "Makes directories in a vault, with those above them. One that is there already is no error. The data of the vault is not touched, whatever its size.",
  ],
  examples: [{ command: "tare vault mkdir models.aerovault llama/7b", says: "a directory and its parent" }],
  output: "report",
  run(context, { positionals }) {
    const [vault = "", ...entries] = positionals;
    const paths = entries.map(entryPath);
    return changeEntries(context, vault, (edit) => {
      let created = 0;
      for (const path of paths) created += edit.tree.makeDirectory(path, edit.now);
      const outcome = created === 0 ? "unchanged" : undefined;
      return {
        facts: { directories: paths, created },
        text: `made ${plural(created, "directory", "directories")}`,
        outcome,
      };
    });
  },
});
