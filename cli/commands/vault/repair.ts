import type { RepairVaultResult } from "../../../src/api/vault/results.ts";
import { plural } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { repairVaultFile } from "../../../src/platform/node/vault/index.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { checkAbsent, overwriteOf } from "../../targets/outputs.ts";
import { commandTarget, LOCK_FLAGS } from "./change.ts";

/** Files that are listed by name; more would only push the verdict off the screen. */
const NAMED_FILES = 20;

export const vaultRepairCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: {
    sidecar: { kind: "path", value: "FILE", summary: "the sidecar, where it is not VAULT.aerocorrect" },
    ...LOCK_FLAGS,
  },
  details: [
    "Heals a vault from the parity it carries and from its sidecar, all of it or nothing: blocks, manifest, list of extensions and parity by either, the header by the sidecar; also where the end was cut off. Every block is compared with its hash before anything is written; a vault that cannot be healed is left as it is (exit 5), with the files named that would be lost. --dry-run says the same and writes nothing.",
    "Only what is damaged is written, in place, each byte of it the right one: an interruption leaves a vault that is less damaged. With -o OUT the healed vault goes there and VAULT stays as it is.",
    "A header is taken from a sidecar only where SHA-256 of the whole healed vault is the one that the sidecar was made of: an old sidecar cannot bring an old password back. Whatever else stands beside the vault under that name is not used, and said.",
  ],
  examples: [
    { command: "tare vault repair models.aerovault --dry-run", says: "what can be healed, what would be lost?" },
    { command: "tare vault repair models.aerovault -o healed.aerovault", says: "into a copy" },
  ],
  output: "data",
  async run(context, { flags, positionals }) {
    const [vault = ""] = positionals;
    const { output } = context.flags;
    if (output !== undefined) await checkAbsent(context, output);
    const target = await commandTarget(context, vault, flags);
    const { sidecar } = flags;
    const result = await repairVaultFile(target, { sidecar, output, overwrite: overwriteOf(context) });
    const isLost = result.state === "lost";
    const report = { json: () => result, text: () => repairText(context, result) };
    await (isLost ? context.show(report) : context.tell(report));
    return isLost ? EXIT.integrity : EXIT.success;
  },
});

function repairText({ colors }: Context, report: RepairVaultResult): string {
  const name = printable(report.vault);
  if (report.state === "intact") return `${name}: nothing to repair`;
  const found = damageText(report);
  if (report.state === "damaged") {
    const verb = report.dryRun ? "would repair" : "repaired";
    return `${colors.green(verb)} ${name}: ${found}, every block proven`;
  }
  const { lostBlocks, lostFiles, header } = report;
  if (header === "unproven") {
    return `${colors.red("not repaired")} ${name}: ${found}; the sidecar could heal that, but is of another state of the vault. The vault is unchanged`;
  }
  const named = lostFiles.slice(0, NAMED_FILES).map((path) => `  lost: ${printable(path)}`);
  const more = lostFiles.length - named.length;
  const rest = more > 0 ? [`  and ${plural(more, "more file")}`] : [];
  const verdict = `${colors.red("not repaired")} ${name}: ${found}, of which parity cannot heal ${lostBlocks}. The vault is unchanged`;
  return [verdict, ...named, ...rest].join("\n");
}

function damageText({ parts, damagedBlocks, parity, origins }: RepairVaultResult): string {
  const from =
    origins.length === 0
      ? ""
      : ` from ${origins.map((one) => (one === "embedded" ? "its parity" : "the sidecar")).join(" and ")}`;
  const damaged = [
    ...parts,
    ...(damagedBlocks === 0 ? [] : [`${plural(damagedBlocks, "block")}${from}`]),
    ...(parity === "damaged" ? ["parity"] : []),
  ];
  return damaged.length === 0 ? "its length" : damaged.join(", ");
}
