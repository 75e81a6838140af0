import { printable } from "../../../src/base/text.ts";
import type { ChangeTarget } from "../../../src/platform/node/vault/index.ts";
import type { Context } from "../../context.ts";
import { EXIT, type ExitCode } from "../../exit-codes.ts";
import type { FlagTable } from "../../flags/flags.ts";
import { drawnProgress } from "../../host.ts";
import { type LockFlags, writeContext } from "../../targets/vault-context.ts";

/** The flag of every command that takes the lock of a vault. */
export const LOCK_FLAGS = {
  "lock-timeout": { kind: "duration", value: "TIME", summary: "wait at most TIME for another writer (30s)" },
} as const satisfies FlagTable;

/** A vault that a command changes. */
export async function commandTarget(context: Context, vault: string, flags: LockFlags): Promise<ChangeTarget> {
  const { targetOf } = await import("../../../src/platform/node/vault/index.ts");
  return targetOf(vault, await writeContext(context, flags), {
    dryRun: context.flags["dry-run"] === true,
    source: "command line",
    onProgress: drawnProgress(context),
  });
}

/** Shows what a change did: for scripts, and for people after "VAULT: ". */
export async function showChange(
  context: Context,
  result: { readonly vault: string; readonly dryRun: boolean },
  text: string,
): Promise<ExitCode> {
  const { vault, dryRun } = result;
  await context.tell({
    json: () => result,
    text: () => `${printable(vault)}: ${dryRun ? "would have " : ""}${printable(text)}`,
  });
  return EXIT.success;
}
