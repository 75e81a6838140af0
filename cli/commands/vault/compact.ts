import { stat } from "node:fs/promises";
import { printable } from "../../../src/base/text.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { formatSize } from "../../render/sizes.ts";
import { writeContext } from "./change.ts";

export const vaultCompactCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: {},
  details: [
    "Writes the vault anew without what no entry uses, and puts it in place of the old one. Every block is compared with its hash on the way; a damaged one stops this, and the vault stays as it was. Needs as much room as the vault takes.",
  ],
  examples: [{ command: "tare vault compact models.aerovault", says: "after tare vault rm" }],
  output: "report",
  async run(context, { positionals }) {
    const [vault = ""] = positionals;
    const { changeVault } = await import("../../../src/platform/node/vault-writer.ts");
    const dryRun = context.flags["dry-run"] === true;
    const before = (await stat(vault).catch(() => undefined))?.size ?? 0;
    const { sealed, result } = await changeVault(vault, await writeContext(context), {
      layout: "rewrite",
      run: dryRun ? "dry" : undefined,
      apply: async (edit) => ({ result: edit.dropUnreferenced() }),
    });
    const after = sealed?.byteLength ?? before - result;
    await context.show({
      json: () => ({ vault, dryRun, byteLengthBefore: before, byteLength: after, freedBytes: before - after }),
      text: () => {
        const verb = dryRun ? "would give back about" : "gave back";
        return `${printable(vault)}: ${verb} ${formatSize(Math.max(0, before - after))}, ${formatSize(after)} left`;
      },
    });
    return EXIT.success;
  },
});
