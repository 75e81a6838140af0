import { formatSize } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { compactVault } from "../../../src/platform/node/vault/index.ts";
import { defineCommand } from "../../command.ts";
import { EXIT } from "../../exit-codes.ts";
import { commandTarget, LOCK_FLAGS } from "./change.ts";

export const vaultCompactCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: { ...LOCK_FLAGS },
  details: [
    "Writes the vault again without what no entry uses, and puts it in place of the old one. Every block is compared with its hash on the way; a damaged one stops this, and the vault stays as it was. Needs as much room as the vault takes.",
  ],
  examples: [{ command: "tare vault compact models.aerovault", says: "after tare vault rm" }],
  output: "report",
  async run(context, { flags, positionals }) {
    const [vault = ""] = positionals;
    const result = await compactVault(await commandTarget(context, vault, flags));
    const { dryRun, byteLength, freedBytes } = result;
    await context.tell({
      json: () => result,
      text: () => {
        const verb = dryRun ? "would give back about" : "gave back";
        return `${printable(vault)}: ${verb} ${formatSize(Math.max(0, freedBytes))}, ${formatSize(byteLength)} left`;
      },
    });
    return EXIT.success;
  },
});
