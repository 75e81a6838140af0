import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Archive } from "../src/model/archive.ts";
import type { HttpSettings, OpenedTarget, TargetPlace } from "../src/platform/node/open-target.ts";
import type { Context } from "./context.ts";
import { collectHeaders } from "./http-headers.ts";

/** Finds a TARGET's bytes with everything the global flags say about them; nobody is asked for a password. */
export async function placeForCommand(context: Context, target: string): Promise<TargetPlace> {
  const { options, module } = await targetOptions(context, target);
  return module.openTargetPlace(target, options);
}

/** What the global flags say about opening a TARGET, and the code that opens it. */
async function targetOptions(context: Context, target: string) {
  const { flags, signal } = context;
  const isUrl = /^https?:\/\//i.test(target);
  await finishStamp(context, target);
  await finishVault(context, target);
  // Loading code takes longer than running it: both at once.
  const [engine, module, cache] = await Promise.all([
    context.engine(),
    import("../src/platform/node/open-target.ts"),
    isUrl || /^s3:/i.test(target) || (flags["allow-origin"]?.length ?? 0) > 0 ? context.cache() : undefined,
  ]);
  const http: HttpSettings = {
    headers: isUrl ? await collectHeaders(context, target) : undefined,
    timeoutMs: flags.timeout,
    retries: flags.retries,
    connections: flags.concurrency,
    store: cache,
    network: flags.offline === true ? "offline" : undefined,
    allowOrigins: flags["allow-origin"],
  };
  const options = {
    engine,
    limits: await context.limits(),
    signal,
    http,
    maxBufferBytes: flags.memory,
    password: async (label: string) => (await import("./password.ts")).readPassword(context, label, "open"),
    spoolFolder: cache?.folder,
  };
  return { options, module };
}

/** Opens a TARGET with everything the global flags say about it. */
export async function openForCommand(context: Context, target: string): Promise<OpenedTarget> {
  const { options, module } = await targetOptions(context, target);
  const opened = await module.openTarget(target, options).catch(async (error: unknown) => {
    const healed = await (await import("./healed-vault.ts")).openHealed(context, target, error);
    if (healed === undefined) throw error;
    return healed;
  });
  if (opened.container.kind === "archive") await warnIfOlder(context, opened.container);
  for (const { code, message, hint } of opened.container.warnings) {
    // Healing is never silent, whatever the command shows otherwise.
    if (code === "integrity/aerovault.healed")
      context.warn(`warning: ${message}${hint === undefined ? "" : `; ${hint}`}`);
  }
  return opened;
}

/** A power failure can tear the header of a vault while it is written; what was meant stands beside it. */
async function finishVault(context: Context, target: string): Promise<void> {
  if (!existsSync(join(dirname(target), `.${basename(target)}.tare-header`))) return;
  const { completeTornHeader } = await import("../src/platform/node/vault-writer.ts");
  const isDone = await completeTornHeader(target, context.signal);
  if (isDone) context.note(`note: "${target}": completed a change that had been interrupted`);
}

/** A vault that somebody put back to an earlier state is whole in itself: only memory tells. */
async function warnIfOlder(context: Context, archive: Archive): Promise<void> {
  const [{ VaultArchive }, { recallVault }] = await Promise.all([
    import("../src/formats/aerovault/vault-archive.ts"),
    import("../src/platform/node/vault-memory.ts"),
  ]);
  if (!(archive instanceof VaultArchive)) return;
  const older = await recallVault(archive.vault, await context.engine(), context.env);
  if (older !== undefined) context.warn(`warning: the vault is older than the one last seen: ${older}`);
}

/** A `tare stamp` that a crash interrupted left a journal: no reader may see the file half edited. */
async function finishStamp(context: Context, target: string): Promise<void> {
  const journal = join(dirname(target), `.${basename(target)}.tare-stamp`);
  if (!existsSync(journal)) return;
  const { finishPatch } = await import("../src/platform/node/patch-file.ts");
  if (await finishPatch(target)) context.note(`note: "${target}": finished an edit that had been interrupted`);
}
