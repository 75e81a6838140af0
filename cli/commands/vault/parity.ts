import type { VaultParityResult } from "../../../src/api/vault/results.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { formatSize } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import {
  type ChangeTarget,
  embedVaultParity,
  exportSidecar,
  stripVaultParity,
} from "../../../src/platform/node/vault/index.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { PARITY_FLAG, parseParity } from "../../flags/quantities.ts";
import { overwriteOf } from "../../targets/outputs.ts";
import { commandTarget, LOCK_FLAGS } from "./change.ts";

const ACTIONS = ["export", "embed", "strip"] as const;
type Action = (typeof ACTIONS)[number];

export const vaultParityCommand = defineCommand({
  positionals: { names: ["VAULT", "export|embed|strip"], min: 2, max: 2 },
  flags: {
    parity: { ...PARITY_FLAG, summary: "how much, where not as the vault records (20%)" },
    ...LOCK_FLAGS,
  },
  details: [
    "export writes VAULT.aerocorrect, or -o: parity of header, manifest and blocks beside the vault, the only parity that can heal a header. It is that of one state: after a change it heals blocks that did not change, and is to be exported again. It holds the header, so treat it as you treat the vault.",
    "embed lets the vault carry parity itself, which every change keeps current. strip takes it out; where there is no sidecar that needs --force.",
    "A vault that is damaged is refused by all three: parity made of damage would make the loss final.",
  ],
  examples: [
    { command: "tare vault parity models.aerovault export", says: "beside it" },
    { command: "tare vault parity models.aerovault embed --parity 20%", says: "in it" },
  ],
  output: "data",
  async run(context, { flags, positionals }) {
    const [vault = "", typed = ""] = positionals;
    const percent = flags.parity === undefined ? undefined : parseParity(flags.parity);
    const action = checkAction(typed);
    const result = await run(action, context, await commandTarget(context, vault, flags), percent);
    await context.tell({ json: () => result, text: () => parityText(result) });
    return EXIT.success;
  },
});

function checkAction(text: string): Action {
  const action = ACTIONS.find((one) => one === text);
  if (action !== undefined) return action;
  const message = `Cannot run "vault parity VAULT ${printable(text)}": must be one of ${ACTIONS.join(", ")}`;
  throw new UsageError("usage/arguments", message, { source: "command line" });
}

function run(action: Action, context: Context, target: ChangeTarget, percent?: number): Promise<VaultParityResult> {
  if (action === "embed") return embedVaultParity(target, percent);
  if (action === "strip") return stripVaultParity(target, context.flags.force === true ? "anyway" : undefined);
  const { output } = context.flags;
  return exportSidecar(target, { output, percent, overwrite: overwriteOf(context), inputs: context.inputs });
}

const DONE = { embed: "carries parity now, which every change keeps current", strip: "carries no parity now" };

function parityText(result: VaultParityResult): string {
  const { vault, dryRun } = result;
  if (result.action === "export") {
    const verb = dryRun ? "would write" : "wrote";
    const { sidecar, sidecarByteLength } = result;
    return `${verb} ${printable(sidecar)}: ${formatSize(sidecarByteLength)} of parity of header, manifest and blocks`;
  }
  return `${printable(vault)}: ${dryRun ? `would ${result.action} parity` : DONE[result.action]}`;
}
