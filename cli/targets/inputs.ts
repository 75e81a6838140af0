import { existsSync } from "node:fs";
import { open, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { isTareError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import { isS3Url } from "../../src/bytes/s3/address.ts";
import { SIDECAR_SUFFIX } from "../../src/formats/aerocorrect/layout.ts";
import { VAULT_MAGIC } from "../../src/formats/aerovault/layout.ts";
import type { Container } from "../../src/model/archive.ts";
import type { Finding } from "../../src/model/finding.ts";
import type { EncryptionRule } from "../../src/model/format.ts";
import type { InputFile } from "../../src/platform/node/files/output-place.ts";
import { homeFolder } from "../../src/platform/node/files/own-folder.ts";
import type { HttpSettings, OpenedPlace, OpenedTarget, OpenTargetOptions } from "../../src/platform/node/targets.ts";
import { type Command, INPUT_NAMES } from "../command.ts";
import { type Context, doubtLine, type OpenRule } from "../context.ts";
import type { FlagTable } from "../flags/flags.ts";
import { collectHeaders } from "../flags/values.ts";
import { checkPasswordsTaken, readPassword } from "../terminal/password.ts";

/** Variables that name a file; what each of them is for, its reader says. */
const FILE_VARIABLES = ["TARE_PASSWORD_FILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "NODE_EXTRA_CA_CERTS"];

/** What the user typed, and the environment of the command. */
export interface Invocation extends Pick<Context, "flags" | "env"> {
  readonly positionals: readonly string[];
}

/** Arguments that a command reads. */
export function inputsAmong({ positionals: { names }, writes = [] }: Command, given: readonly string[]): string[] {
  return given.filter((_, i) => !writes.includes(i) && INPUT_NAMES.has(names[i] ?? names.at(-1) ?? ""));
}

/**
 * Every file that arguments, flags and environment name and the command may read: outputs are compared with them. Flags
 * count by their kind, so that a new one is not forgotten.
 */
export async function findInputFiles(
  command: Command,
  table: FlagTable,
  { flags, positionals, env }: Invocation,
): Promise<readonly InputFile[]> {
  const given = Object.entries(flags as Readonly<Record<string, unknown>>)
    .filter(([name]) => name !== "output" && /^paths?$/.test(table[name]?.kind ?? ""))
    .flatMap(([, value]) => value);
  // Found as the AWS tools find them, where the environment names none.
  const home = env["HOME"] || homeFolder();
  const profiles = home === undefined ? [] : ["config", "credentials"].map((name) => join(home, ".aws", name));
  const settings = [
    ...given,
    ...FILE_VARIABLES.map((name) => env[name]),
    ...(positionals.some(isS3Url) ? profiles : []),
  ]
    .filter((path) => typeof path === "string")
    .filter((path) => path !== "" && path !== "-");
  const kept = settings.map((path): InputFile => ({ path, kind: "kept" }));
  const writes = new Set(command.writes);
  // Without an output of its own a report goes to the screen, and replaces nothing.
  if (command.output === "report" && flags.output === undefined && writes.size === 0) return kept;
  const targets = inputsAmong(command, positionals);
  const { localFileOf } = await import("../../src/platform/node/targets.ts");
  const found = targets.map(async (text): Promise<InputFile> => {
    const file = await localFileOf(text);
    return { path: file ?? text, kind: file !== undefined && file !== text ? "vault" : "plain" };
  });
  return [...(await Promise.all(found)), ...kept];
}

/** What the global flags say about opening a TARGET, and the code that opens it. */
export async function targetOptions(context: Context, target: string) {
  const { flags, signal } = context;
  const isUrl = /^https?:\/\//i.test(target);
  if (!isUrl) await finishWrites(context, target);
  // Loading code takes longer than running it, so both happen at once.
  const [engine, module, cache] = await Promise.all([
    context.engine(),
    import("../../src/platform/node/targets.ts"),
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
    password: async (label: string) => readPassword(context, label, { use: "open" }),
    encryption: encryptionRule(context),
    onOpened: (container, place) => judgeVault(context, container, place),
    onFile: (path) => context.noteBeside(path),
    onNote: (text) => context.note(`note: ${printable(text)}`),
    onDoubt: (finding) => context.doubt(finding),
    spoolFolder: cache?.folder,
  };
  return { options, module };
}

/** Opens a TARGET by the global flags. */
export async function openForCommand(context: Context, target: string, rule: OpenRule): Promise<OpenedTarget> {
  const { options, module } = await targetOptions(context, target);
  const opened = await module.openTarget(target, { ...options, ...rule }).catch(async (error: unknown) => {
    const healed = await openHealed(context, target, error);
    if (healed === undefined) throw error;
    return healed;
  });
  if ((context.targetCount ?? 1) <= 1) {
    try {
      checkPasswordsTaken(context);
    } catch (error) {
      await opened.close();
      throw error;
    }
  }
  // Healing is never silent, whatever else the command shows.
  for (const finding of opened.container.warnings)
    if (finding.code === "integrity/aerovault.healed") context.warn(doubtLine(finding));
  return opened;
}

/**
 * Completes an in-place write that a crash interrupted: the header of a vault, or a `tare stamp`. If the file may not
 * be written, opening uses the journal.
 */
async function finishWrites(context: Context, target: string): Promise<void> {
  const [{ localFileOf }, journals, stamps] = await Promise.all([
    import("../../src/platform/node/targets.ts"),
    import("../../src/platform/node/vault/journal.ts"),
    import("../../src/platform/node/files/patch.ts"),
  ]);
  const path = await localFileOf(target);
  const real = path === undefined ? undefined : await realpath(path).catch(() => undefined); // opening reports it
  if (path === undefined || real === undefined) return;
  if (existsSync(journals.journalPath(real))) {
    const isDone = await journals.completeTornHeader(real, context.signal);
    if (isDone) context.note(`note: "${path}": completed a change that had been interrupted`);
  }
  if (existsSync(stamps.stampJournalPath(real))) {
    const isDone = await stamps.finishPatch(real, context.env).catch((error: unknown) => {
      // A file that may not be written is opened with its journal, and without one that is not ours; an edit refuses that.
      if (isTareError(error) && /^source\/(forbidden|stamp\.journal)$/.test(error.code)) return false;
      throw error;
    });
    if (isDone) context.note(`note: "${path}": finished an edit that had been interrupted`);
  }
}

/** What the flags say about vaults without encryption: a user who gives a password expects an encrypted one. */
export function encryptionRule({ flags, env }: Context): EncryptionRule | undefined {
  if (flags["no-encryption"] === true) return "waived";
  const given = [
    ...(flags["password-file"] ?? []),
    env["TARE_PASSWORD_FILE"],
    env["TARE_PASSWORD_COMMAND"],
    env["TARE_PASSWORD"],
  ];
  return given.some((one) => one !== undefined && one !== "") ? "expected" : undefined;
}

/**
 * A vault that was put back to an earlier state, or that lost its encryption, is consistent in itself: only our memory
 * of it shows the change. Names in older versions may be unencrypted; their contents are not.
 */
async function judgeVault(context: Context, container: Container, place: OpenedPlace): Promise<void> {
  if (container.kind !== "archive") return;
  const [{ VaultArchive }, { recallLane, recallOpened }] = await Promise.all([
    import("../../src/formats/aerovault/read.ts"),
    import("../../src/platform/node/vault/memory.ts"),
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

/**
 * Opens a local vault that opening refused, by what can heal it; undefined if there is nothing to heal or nothing that
 * heals.
 */
async function openHealed(context: Context, target: string, error: unknown): Promise<OpenedTarget | undefined> {
  if (
    !isTareError(error) ||
    !/^(format|integrity|unsupported)\/|^usage\/(password\.wrong|vault\.unencrypted)$/.test(error.code)
  )
    return undefined;
  // A pipe has been read already, and opening it again would wait for its next writer.
  if (!(await isPlainFile(target))) return undefined;
  // A sidecar is beside the vault itself, not beside a link to it.
  const real = await realpath(target).catch(() => target);
  const hasSidecar = await isPlainFile(`${real}${SIDECAR_SUFFIX}`);
  const isVault = (await firstBytes(target)) === VAULT_MAGIC;
  // Without a sidecar the header cannot be healed: then it must be right, and so must the password.
  if (!hasSidecar && (!isVault || error.code.startsWith("usage/"))) return undefined;
  const [{ openHealedVault }, { aerovault }] = await Promise.all([
    import("../../src/platform/node/vault/repair.ts"),
    import("../../src/formats/aerovault/index.ts"),
  ]);
  const container = await openHealedVault(target, {
    engine: await context.engine(),
    limits: await context.limits(),
    signal: context.signal,
    encryption: encryptionRule(context),
    password: async (label) => readPassword(context, label, { use: "open" }),
  });
  if (container === undefined) return undefined;
  try {
    await judgeVault(context, container, { outer: target, inner: [] });
  } catch (error) {
    await container.close();
    throw error;
  }
  return {
    container,
    format: aerovault,
    reader: await aerovault.read(),
    notes: [],
    label: target,
    cost: { reads: 0, bytes: 0, requests: 0 },
    distrust: () => container.close(),
    close: () => container.close(),
  };
}

async function firstBytes(path: string): Promise<string | undefined> {
  const handle = await open(path, "r").catch(() => undefined); // opening has reported why
  if (handle === undefined) return undefined;
  try {
    const bytes = new Uint8Array(VAULT_MAGIC.length);
    await handle.read(bytes, 0, bytes.byteLength, 0);
    return String.fromCharCode(...bytes);
  } catch {
    return undefined;
  } finally {
    await handle.close();
  }
}

/** Also of a link that leads to one. */
function isPlainFile(path: string): Promise<boolean> {
  return stat(path).then(
    (facts) => facts.isFile(),
    () => false,
  );
}
