import { extractArchive } from "../../../src/api/vault/extract.ts";
import { defineCommand } from "../../command.ts";
import { commandHost, writeOptions } from "../../host.ts";
import { requireOutput } from "../../targets/outputs.ts";
import { showExtraction } from "../move/extract.ts";
import { openArchive } from "./look.ts";

export const vaultExtractCommand = defineCommand({
  positionals: { names: ["VAULT", "GLOB"], min: 1, max: Number.MAX_SAFE_INTEGER },
  flags: {},
  details: [
    "Writes entries below -o DIR, which is made where it is missing: all of them, or those that match a GLOB, in which * crosses slashes; a directory that matches comes with all in it. Times are those that were stored; so are permissions, but for what the umask takes away and set-user-id and the like.",
    "Every block is proven before its bytes are written. If a block is damaged, the files that need it are not written, each is named with the reason, and the exit code is 5; all other files are written.",
    "No file is visible before it is complete, and nothing that exists is replaced without --force. Links inside DIR are never followed: one in the place of a folder that is needed stops the command, and one in the place of a file is replaced with --force, not written through. Entries that would take the place of the vault itself, or of its sidecar, lock or journal, are refused.",
  ],
  examples: [
    { command: "tare vault extract models.aerovault -o out", says: "everything" },
    { command: 'tare vault extract models.aerovault "llama/*" -o out', says: "some of it" },
  ],
  output: "data",
  async run(context, { positionals }) {
    const root = requireOutput(context, "a directory");
    const [target = "", ...globs] = positionals;
    // Threads start while the key is derived from the password.
    await context.expectHashing(target);
    const { container, label } = await openArchive(context, target);
    const host = commandHost(context);
    const options = await writeOptions(context);
    const request = { ...options, glob: globs, engine: await host.engine(options) };
    const { result } = await extractArchive(host, { archive: container, label, target }, root, request);
    return showExtraction(context, result, target);
  },
});
