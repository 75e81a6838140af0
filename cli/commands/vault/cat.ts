import { defineCommand } from "../../command.ts";
import { checkAbsent } from "../../output-target.ts";
import { checkStandardOutput } from "../../stdout-sink.ts";
import { catEntry } from "../cat.ts";
import { openArchive } from "./open-vault.ts";

export const vaultCatCommand = defineCommand({
  positionals: { names: ["VAULT", "ENTRY"], min: 2, max: 2 },
  flags: {},
  details: [
    "The file's bytes to standard output or -o. Only the blocks that hold it are read, also over HTTP, and every one is proven before its bytes are handed out.",
  ],
  examples: [
    { command: "tare vault cat models.aerovault notes/readme.md > readme.md", says: "one file" },
    { command: "tare vault cat https://example.org/models.aerovault a.gguf -o a.gguf", says: "from a server" },
  ],
  output: "data",
  vaultOutput: "single file",
  async run(context, { positionals }) {
    const [target = "", path = ""] = positionals;
    const output = context.flags.output === "-" ? undefined : context.flags.output;
    if (output === undefined) checkStandardOutput(context);
    else await checkAbsent(context, output);
    const { container } = await openArchive(context, target);
    return catEntry(container.entry(path), output, context);
  },
});
