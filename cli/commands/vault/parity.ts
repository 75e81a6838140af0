import { stat } from "node:fs/promises";
import { UsageError } from "../../../src/base/errors.ts";
import { printable } from "../../../src/base/text.ts";
import type { Vault } from "../../../src/formats/aerovault/vault.ts";
import type { VaultState } from "../../../src/formats/aerovault/write/vault-state.ts";
import { parityGrid } from "../../../src/model/parity/avec.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT, type ExitCode } from "../../exit-codes.ts";
import { checkAbsent, checkNotInput, overwriteOf } from "../../output-target.ts";
import { PARITY_FLAG, parseParity } from "../../parity-level.ts";
import { formatSize } from "../../render/sizes.ts";
import { writeContext } from "./change.ts";
import { noteSidecar } from "./sidecar-note.ts";

const ACTIONS = ["export", "embed", "strip"] as const;
type Action = (typeof ACTIONS)[number];

export const vaultParityCommand = defineCommand({
  positionals: { names: ["VAULT", "export|embed|strip"], min: 2, max: 2 },
  flags: {
    parity: { ...PARITY_FLAG, summary: "how much, where not as the vault records (20%)" },
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
    const [vault = "", action = ""] = positionals;
    const percent = flags.parity === undefined ? undefined : parseParity(flags.parity);
    return RUN[checkAction(action)](context, vault, percent);
  },
});

const RUN: Readonly<Record<Action, (context: Context, vault: string, percent?: number) => Promise<ExitCode>>> = {
  export: exportSidecar,
  embed,
  strip,
};

function checkAction(text: string): Action {
  const action = ACTIONS.find((one) => one === text);
  if (action !== undefined) return action;
  const message = `Cannot run "vault parity VAULT ${printable(text)}": must be one of ${ACTIONS.join(", ")}`;
  throw new UsageError("usage/arguments", message, { source: "command line" });
}

async function exportSidecar(context: Context, vault: string, percent?: number): Promise<ExitCode> {
  const [{ exportVaultParity }, { findVaultSidecar, vaultSidecarPath }] = await Promise.all([
    import("../../../src/platform/node/vault-parity.ts"),
    import("../../../src/platform/node/vault-sidecar.ts"),
  ]);
  const writing = await writeContext(context);
  const output = context.flags.output ?? (await vaultSidecarPath(vault));
  // One of its own kind is what is to be renewed; whatever else has that name is not replaced unasked.
  // A device or a pipe is none, and reading it might never end.
  const isFile = (await stat(output).catch(() => undefined))?.isFile() === true;
  const existing = isFile ? await findVaultSidecar(vault, writing.engine, output).catch(() => undefined) : undefined;
  await existing?.close();
  const keep = { sidecars: "written" } as const;
  await (existing === undefined ? checkAbsent(context, output, keep) : checkNotInput(context, output, keep));
  const dryRun = context.flags["dry-run"] === true;
  const progress = context.progress({ label: "computing parity" });
  const overwrite = existing === undefined ? overwriteOf(context) : "replace";
  const onProgress = (done: number): void => progress.add(done);
  const grid = percent === undefined ? undefined : parityGrid(percent);
  const run = dryRun ? "dry" : undefined;
  const { byteLength } = await exportVaultParity(vault, writing, { output, overwrite, run, grid, onProgress });
  progress.end();
  await context.show({
    json: () => ({ vault, action: "export", dryRun, sidecar: output, sidecarByteLength: byteLength }),
    text: () => {
      const verb = dryRun ? "would write" : "wrote";
      return `${verb} ${printable(output)}: ${formatSize(byteLength)} of parity of header, manifest and blocks`;
    },
  });
  return EXIT.success;
}

async function embed(context: Context, vault: string, percent?: number): Promise<ExitCode> {
  const [{ withParity }, { DEFAULT_PARITY_PERCENT }] = await Promise.all([
    import("../../../src/operations/vault/embed-parity.ts"),
    import("../../../src/formats/aerovault/parity-grid.ts"),
  ]);
  const restate = async (opened: Vault): Promise<VaultState> =>
    withParity(opened, percent ?? opened.manifest.errorCorrectionPct ?? DEFAULT_PARITY_PERCENT);
  return change(context, vault, {
    action: "embed",
    restate,
    text: "carries parity now, which every change keeps current",
  });
}

async function strip(context: Context, vault: string): Promise<ExitCode> {
  const [{ withoutParity }, { findVaultSidecar }] = await Promise.all([
    import("../../../src/operations/vault/embed-parity.ts"),
    import("../../../src/platform/node/vault-sidecar.ts"),
  ]);
  const engine = await context.engine();
  const { sidecar, close } = await findVaultSidecar(vault, engine);
  await close();
  if (sidecar === undefined && context.flags.force !== true) {
    const message = `Cannot strip the parity of "${vault}": nothing else could heal it, as it has no sidecar`;
    const hint = "Run tare vault parity VAULT export first, or pass --force";
    throw new UsageError("usage/vault.parity", message, { source: vault }, { hint });
  }
  const restate = (opened: Vault): Promise<VaultState> => withoutParity(opened, engine);
  return change(context, vault, { action: "strip", restate, text: "carries no parity now" });
}

interface ParityChange {
  readonly action: Action;
  readonly restate: (vault: Vault) => Promise<VaultState>;
  readonly text: string;
}

/** A change of nothing but the extensions; the sidecar, where there is one, is made anew after it. */
async function change(context: Context, vault: string, { action, restate, text }: ParityChange): Promise<ExitCode> {
  const { changeVault } = await import("../../../src/platform/node/vault-writer.ts");
  const dryRun = context.flags["dry-run"] === true;
  const writing = await writeContext(context);
  const { sealed } = await changeVault(vault, writing, {
    layout: "update",
    run: dryRun ? "dry" : undefined,
    restate,
    sidecar: "renewed",
    apply: async () => ({ result: undefined }),
  });
  const sidecar = dryRun ? "none" : await noteSidecar(context, vault, writing.password);
  await context.show({
    json: () => ({ vault, action, dryRun, byteLength: sealed?.byteLength ?? null, sidecarFate: sidecar }),
    text: () => `${printable(vault)}: ${dryRun ? `would ${action} parity` : text}`,
  });
  return EXIT.success;
}
