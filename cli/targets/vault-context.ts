import type { Bytes } from "../../src/base/bytes.ts";
import { printable } from "../../src/base/text.ts";
import type { VaultWriteContext } from "../../src/platform/node/vault/change.ts";
import type { Context } from "../context.ts";
import { checkPasswordsTaken, readPassword } from "../terminal/password.ts";
import { encryptionRule } from "./inputs.ts";

export interface LockFlags {
  readonly "lock-timeout"?: number | undefined;
}

/**
 * What changing a vault needs, from the global flags. Leftovers of an interrupted run are removed when the process
 * ends.
 */
export async function writeContext(context: Context, flags: LockFlags = {}): Promise<VaultWriteContext> {
  const [{ abortAllSinks }, { releaseAllVaultLocks }, engine] = await Promise.all([
    import("../../src/platform/node/files/sink.ts"),
    import("../../src/platform/node/vault/lock.ts"),
    context.engine(),
  ]);
  context.onExit(abortAllSinks);
  context.onExit(releaseAllVaultLocks);
  return {
    engine,
    limits: await context.limits(),
    password: (label) => askPassword(context, label),
    encryption: encryptionRule(context),
    lockTimeoutMs: flags["lock-timeout"],
    signal: context.signal,
    env: context.env,
    onNote: (text) => context.note(`note: ${printable(text)}`),
    onWarning: (finding) => context.doubt(finding),
    onLoss: (text) => context.warn(`warning: ${printable(text)}`),
  };
}

async function askPassword(context: Context, label: string): Promise<Bytes | undefined> {
  const secret = await readPassword(context, label, { use: "open" });
  try {
    // Before the change, where nothing else can take the other passwords.
    if ((context.targetCount ?? 1) <= 1) checkPasswordsTaken(context);
    return secret;
  } catch (error) {
    secret?.fill(0);
    throw error;
  }
}
