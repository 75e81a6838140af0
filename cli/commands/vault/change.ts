import type { Bytes } from "../../../src/base/bytes.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { printable } from "../../../src/base/text.ts";
import { findPathFault, normalizePath } from "../../../src/formats/aerovault/paths.ts";
import type { VaultEdit } from "../../../src/formats/aerovault/write/vault-edit.ts";
import type { VaultWriteContext } from "../../../src/platform/node/vault-writer.ts";
import type { Context } from "../../context.ts";
import { EXIT, type ExitCode } from "../../exit-codes.ts";
import { encryptionRule } from "../../open-input.ts";

/** What changing a vault takes, from the global flags. What an interrupted run leaves is put away when the process ends. */
export async function writeContext(context: Context): Promise<VaultWriteContext> {
  const [{ abortAllSinks }, { releaseAllVaultLocks }, engine] = await Promise.all([
    import("../../../src/platform/node/file-sink.ts"),
    import("../../../src/platform/node/vault-lock.ts"),
    context.engine(),
  ]);
  context.onExit(abortAllSinks);
  context.onExit(releaseAllVaultLocks);
  return {
    engine,
    limits: await context.limits(),
    password: (label) => askPassword(context, label),
    encryption: encryptionRule(context),
    signal: context.signal,
    env: context.env,
    onNote: (text) => context.note(printable(text)),
    onWarning: (finding) => context.doubt(finding),
  };
}

async function askPassword(context: Context, label: string): Promise<Bytes | undefined> {
  const { readPassword } = await import("../../password.ts");
  return readPassword(context, label, "open");
}

/** A path inside the vault as somebody typed it: outer slashes and spaces go, everything else must be fine. */
export function entryPath(typed: string): string {
  const path = normalizePath(typed);
  const fault = findPathFault(path);
  if (fault === undefined) return path;
  const message = `Cannot use "${printable(typed)}" as a path in a vault: ${fault}`;
  throw new UsageError("usage/vault.path", message, { source: "command line" });
}

/** A change of entries alone, with its one line of report. */
export interface EntryChange {
  /** What it did, for scripts. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** The same for people, behind "VAULT: ". */
  readonly text: string;
  readonly outcome?: "unchanged" | undefined;
}

/** Runs a verb that only moves entries about, and reports it. */
export async function changeEntries(
  context: Context,
  vault: string,
  apply: (edit: VaultEdit) => EntryChange,
): Promise<ExitCode> {
  const { changeVault } = await import("../../../src/platform/node/vault-writer.ts");
  const dryRun = context.flags["dry-run"] === true;
  const { result } = await changeVault(vault, await writeContext(context), {
    layout: "update",
    run: dryRun ? "dry" : undefined,
    apply: async (edit) => {
      const done = apply(edit);
      return { result: done, outcome: done.outcome };
    },
  });
  await context.show({
    json: () => ({ vault, dryRun, ...result.facts }),
    text: () => `${printable(vault)}: ${dryRun ? "would have " : ""}${printable(result.text)}`,
  });
  return EXIT.success;
}
