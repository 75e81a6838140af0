import { existsSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { isTareError } from "../src/base/errors.ts";
import type { Container } from "../src/model/archive.ts";
import type { Finding } from "../src/model/finding.ts";
import type { EncryptionRule } from "../src/model/format.ts";
import type {
  HttpSettings,
  OpenedPlace,
  OpenedTarget,
  OpenTargetOptions,
  TargetPlace,
} from "../src/platform/node/open-target.ts";
import type { Context } from "./context.ts";
import { collectHeaders } from "./http-headers.ts";

/** Finds a TARGET's bytes with everything the global flags say about them; nobody is asked for a password. */
export async function placeForCommand(context: Context, target: string): Promise<TargetPlace> {
  const { options, module } = await targetOptions(context, target);
  const place = await module.openTargetPlace(target, options);
  try {
    await judgeUnopened(target, place, options);
    return place;
  } catch (error) {
    await place.source.close();
    throw error;
  }
}

/**
 * Whoever opens it later knows nothing of a password that was given here, nor of what was seen before: a vault without
 * encryption is judged now. Anything else about it is told by opening it.
 */
async function judgeUnopened(target: string, { source }: TargetPlace, options: OpenTargetOptions): Promise<void> {
  const [{ VAULT_MAGIC }, { openTarget }] = await Promise.all([
    import("../src/formats/aerovault/layout.ts"),
    import("../src/platform/node/open-target.ts"),
  ]);
  if (target === "-" || source.byteLength < VAULT_MAGIC.length) return;
  const magic = await source.read(0, VAULT_MAGIC.length);
  if (String.fromCharCode(...magic) !== VAULT_MAGIC) return;
  try {
    await (await openTarget(target, { ...options, password: undefined })).close();
  } catch (error) {
    // A bug, or Ctrl-C, is nothing that opening would tell.
    if (!isTareError(error) || /^usage\/vault\./.test(error.code)) throw error;
  }
}

/** What the global flags say about opening a TARGET, and the code that opens it. */
async function targetOptions(context: Context, target: string) {
  const { flags, signal } = context;
  const isUrl = /^https?:\/\//i.test(target);
  if (!isUrl) await finishWrites(context, target);
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
  const options: OpenTargetOptions = {
    engine,
    limits: await context.limits(),
    signal,
    http,
    maxBufferBytes: flags.memory,
    password: async (label: string) => (await import("./password.ts")).readPassword(context, label, "open"),
    encryption: encryptionRule(context),
    onOpened: (container, place) => judgeVault(context, container, place),
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
  for (const { code, message, hint } of opened.container.warnings) {
    // Healing is never silent, whatever the command shows otherwise.
    if (code === "integrity/aerovault.healed")
      context.warn(`warning: ${message}${hint === undefined ? "" : `; ${hint}`}`);
  }
  return opened;
}

/**
 * Completes what a crash interrupted while a file was written in its place: the header of a vault, or a `tare stamp`. Where
 * that may not be written, opening takes it from the journal.
 */
async function finishWrites(context: Context, target: string): Promise<void> {
  const [{ localFileOf }, journals, stamps] = await Promise.all([
    import("../src/platform/node/open-target.ts"),
    import("../src/platform/node/vault-journal.ts"),
    import("../src/platform/node/patch-file.ts"),
  ]);
  const path = await localFileOf(target);
  const real = path === undefined ? undefined : await realpath(path).catch(() => undefined); // opening will tell
  if (path === undefined || real === undefined) return;
  if (existsSync(journals.journalPath(real))) {
    const isDone = await journals.completeTornHeader(real, context.signal);
    if (isDone) context.note(`note: "${path}": completed a change that had been interrupted`);
  }
  if (existsSync(stamps.stampJournalPath(real))) {
    const isDone = await stamps.finishPatch(real).catch((error: unknown) => {
      if (isTareError(error) && error.code === "source/forbidden") return false;
      throw error;
    });
    if (isDone) context.note(`note: "${path}": finished an edit that had been interrupted`);
  }
}

/** What the flags say about vaults without encryption: whoever gives a password means an encrypted one. */
export function encryptionRule({ flags, env }: Context): EncryptionRule | undefined {
  if (flags["no-encryption"] === true) return "waived";
  const given = [flags["password-file"], env["TARE_PASSWORD_FILE"], env["TARE_PASSWORD_COMMAND"], env["TARE_PASSWORD"]];
  return given.some((one) => one !== undefined && one !== "") ? "expected" : undefined;
}

/**
 * A vault that somebody put back to an earlier state, or that has no encryption any more, is whole in itself: only memory
 * tells. Names of older versions may be in clear, their contents are not.
 */
export async function judgeVault(context: Context, container: Container, place: OpenedPlace): Promise<void> {
  if (container.kind !== "archive") return;
  const [{ VaultArchive }, { recallLane, recallOpened }] = await Promise.all([
    import("../src/formats/aerovault/vault-archive.ts"),
    import("../src/platform/node/vault-memory.ts"),
  ]);
  const recall = {
    engine: await context.engine(),
    env: context.env,
    encryption: encryptionRule(context),
    onWarning: (finding: Finding) => context.doubt(finding),
  };
  if (!(container instanceof VaultArchive)) return recallLane("encrypted", place, recall);
  const older = await recallOpened(container.vault, place, recall);
  if (older !== undefined) context.doubt(older);
}
