import { createHash } from "node:crypto";
import { access, realpath, stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { UsageError } from "../../../base/errors.ts";
import { encodeHex, encodeUtf8 } from "../../../base/text.ts";
import { INNER_MARK } from "../../../bytes/resolver.ts";
import { deriveFromMaster, type Lane } from "../../../formats/aerovault/keys.ts";
import type { Vault } from "../../../formats/aerovault/vault.ts";
import type { Finding } from "../../../model/finding.ts";
import type { EncryptionRule } from "../../../model/format.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { errnoOf, fileError, fullPath } from "../errors.ts";
import { foreignFolder, makeFolder, stateFolder } from "../files/own-folder.ts";
import { readOwnFile } from "../files/reads.ts";
import { fileSink } from "../files/sink.ts";
import { readVaultMark } from "./mark.ts";

/** Label of the id that a vault is remembered by: it reveals nothing about the keys. */
const ID_INFO = "tare vault id v1";
const ID_BYTES = 16;
/** States to remember; older ones are forgotten, but their generations still show that they are older. */
const MAX_SEEN = 4096;
/** A longer file is not ours. */
const MAX_FILE_BYTES = 1 << 20;
/** Characters of a place's SHA-256 that name its file. */
const PLACE_DIGITS = 32;

/** The part of a vault that memory needs. */
export type RememberedVault = Pick<Vault, "keys" | "manifest" | "manifestSeal">;

interface Memory {
  /** Generation of the state last seen; absent if the reference wrote it, which keeps no count. */
  readonly generation?: number | undefined;
  readonly modified: string;
  /** Nonces and tags of manifests, oldest first, the last is the current one. Headers of two states can be equal. */
  readonly seals: readonly string[];
}

export type StateEnvironment = Readonly<Record<string, string | undefined>>;

/** The place that a vault was opened from: a path, URL or `-`, and names inside archives. */
export interface VaultPlace {
  readonly outer: string;
  readonly inner: readonly string[];
}

/** How to use the memory. */
export interface RecallContext {
  readonly engine: Engine;
  readonly env: StateEnvironment;
  /** "waived" if the user confirms a vault without encryption: then the memory of its place is dropped. */
  readonly encryption?: EncryptionRule | undefined;
  /** "read" compares and remembers nothing: the memory is the command line's, and programs only ask it. */
  readonly memory?: "read" | undefined;
  /** Called once per vault if the memory can neither be read nor kept. */
  readonly onWarning?: ((finding: Finding) => void) | undefined;
}

/** Gets the reason why nothing can be remembered. */
type Tell = (why: string) => void;

/** The folder of the memory; undefined for a user who has nowhere to keep it. */
export function vaultMemoryFolder(env: StateEnvironment): string | undefined {
  const folder = stateFolder(env);
  return folder === undefined ? undefined : join(folder, "vaults");
}

/**
 * Compares an opened vault with what was last seen at its place, and of the vault itself, and remembers it. Throws
 * `usage/vault.was-encrypted`; returns a warning if it is older.
 */
export async function recallOpened(
  vault: RememberedVault,
  place: VaultPlace,
  context: RecallContext,
): Promise<Finding | undefined> {
  const tell = tellOnce(place, context);
  await compareLane(vault.keys.lane, place, context, tell);
  const { engine, env, memory } = context;
  const older =
    memory === "read"
      ? (await compareVault(vault, engine, env, tell)).older
      : await recallVault(vault, engine, env, tell);
  if (older === undefined || (await hasMovedOn(vault, place, context))) return undefined;
  const source = placeText(place);
  const message = `"${source}" is older than the one last seen: ${older}`;
  const hint =
    "If you keep copies, another one was changed since; if not, someone may have put an older one in its place";
  return { severity: "warning", code: "integrity/vault.older", message, at: { source }, hint };
}

/**
 * True if the state that was remembered last is at the vault's place by now: a writer has ended and remembered it after
 * this state was opened, which was the newest then. Any other vault at the place says nothing about this one.
 */
async function hasMovedOn(
  vault: RememberedVault,
  { outer, inner }: VaultPlace,
  { engine, env }: Pick<RecallContext, "engine" | "env">,
): Promise<boolean> {
  if (inner.length > 0 || !(await isRegularFile(outer))) return false;
  const mark = await readVaultMark(outer, outer).catch(() => undefined); // no file, or one that cannot be read any more
  if (mark?.manifestSeal === undefined) return false;
  const folder = vaultMemoryFolder(env);
  if (folder === undefined) return false;
  const known = await readMemory(await memoryPath(vault, engine, folder), () => undefined);
  return typeof known === "object" && known.seals.at(-1) === encodeHex(mark.manifestSeal);
}

function isRegularFile(path: string): Promise<boolean> {
  return stat(path).then(
    (facts) => facts.isFile(),
    () => false,
  );
}

/**
 * Compares the lane of a vault with the one that was last seen at its place, under any of its names. A vault that was
 * encrypted and is not any more is refused: writing it needed no key.
 */
export function recallLane(
  lane: Lane,
  place: VaultPlace,
  context: Pick<RecallContext, "env" | "encryption" | "memory" | "onWarning">,
): Promise<void> {
  return compareLane(lane, place, context, tellOnce(place, context));
}

async function compareLane(
  lane: Lane,
  place: VaultPlace,
  { env, encryption, memory }: Pick<RecallContext, "env" | "encryption" | "memory">,
  tell: Tell,
): Promise<void> {
  const paths = await laneFiles(place, env);
  const [first] = paths;
  if (first === undefined || !(await isOurs(dirname(first), tell))) return;
  for (const path of paths) {
    const wasEncrypted = await isThere(path, tell);
    if (lane === "encrypted") {
      if (!wasEncrypted && memory !== "read") await writeState(path, "encrypted\n", tell);
    } else if (wasEncrypted) {
      if (encryption !== "waived") throw wasEncryptedError(placeText(place));
      if (memory !== "read") await unlink(path).catch(() => undefined); // the next run asks again
    }
  }
}

function placeText({ outer, inner }: VaultPlace): string {
  return [outer, ...inner].join(INNER_MARK);
}

/** The vault opens all the same. Only the first reason is reported, because the others are usually the same. */
function tellOnce(place: VaultPlace, { onWarning }: Pick<RecallContext, "onWarning">): Tell {
  let isTold = false;
  return (why) => {
    if (isTold) return;
    isTold = true;
    const source = placeText(place);
    const message = `"${source}" cannot be compared with what was seen of it before: ${why}`;
    onWarning?.({ severity: "warning", code: "source/vault.memory", message, at: { source } });
  };
}

/** False if others could have written to our folder, or could remove it: then its content is ignored. */
async function isOurs(folder: string, tell: Tell): Promise<boolean> {
  for (const path of [dirname(folder), folder]) {
    const why = await foreignFolder(path);
    if (why === undefined) continue;
    tell(`"${path}" ${why}`);
    return false;
  }
  return true;
}

function wasEncryptedError(source: string): UsageError {
  const message = `Cannot open "${source}": the vault there was encrypted when it was last seen, and this one is not`;
  const hint =
    "Another person may have exchanged it. If it is meant to have no encryption, pass the option encryption: false once: from then on tare opens such vaults at this place when no password is given";
  return new UsageError("usage/vault.was-encrypted", message, { source }, { hint });
}

/** Files whose presence shows that a place had an encrypted vault. A link and its target are two places. */
async function laneFiles({ outer, inner }: VaultPlace, env: StateEnvironment): Promise<string[]> {
  const folder = stateFolder(env);
  if (outer === "-" || folder === undefined) return [];
  const isUrl = /^[a-z][a-z0-9+.-]+:\/\//i.test(outer);
  const names = isUrl
    ? [outer.replace(/\/\/[^/]*@/, "//")]
    : [...new Set([fullPath(outer), await realpath(outer).catch(() => fullPath(outer))])];
  return names.map((name) => {
    const digest = createHash("sha256")
      .update([name, ...inner].join(INNER_MARK))
      .digest("hex");
    return join(folder, "encrypted-places", digest.slice(0, PLACE_DIGITS));
  });
}

function isThere(path: string, tell: Tell): Promise<boolean> {
  return access(path).then(
    () => true,
    (error: unknown) => {
      if (!isAbsence(error)) tell(reasonOf(error, `Cannot read "${path}"`));
      return false;
    },
  );
}

/** Any other error only means that we cannot know. */
function isAbsence(error: unknown): boolean {
  return ["ENOENT", "ENOTDIR"].includes(errnoOf(error) ?? "");
}

function reasonOf(error: unknown, action: string): string {
  const named = fileError(error, action, { source: "state" });
  return named instanceof Error ? named.message : String(named);
}

/**
 * Compares a vault with what was last seen of it, and remembers it. Returns the text of a warning if it is older: its
 * generation is lower, or its manifest was seen before and replaced since. Undefined otherwise, also if nothing can be
 * remembered. A vault without encryption has no secret to be remembered by.
 */
export async function recallVault(
  vault: RememberedVault,
  engine: Engine,
  env: StateEnvironment,
  tell: Tell = () => undefined,
): Promise<string | undefined> {
  const { older, path, before } = await compareVault(vault, engine, env, tell);
  const isNew = older === undefined && before?.seals.at(-1) !== encodeHex(vault.manifestSeal);
  if (path !== undefined && isNew) await writeMemory(path, advance(before, vault), tell);
  return older;
}

interface Comparison {
  readonly older?: string | undefined;
  /** Where the vault is remembered; undefined if it cannot be. */
  readonly path?: string;
  readonly before?: Memory | undefined;
}

async function compareVault(
  vault: RememberedVault,
  engine: Engine,
  env: StateEnvironment,
  tell: Tell,
): Promise<Comparison> {
  const folder = vault.keys.lane === "plain" ? undefined : await ownMemoryFolder(env, tell);
  if (folder === undefined) return {};
  const path = await memoryPath(vault, engine, folder);
  const before = await readMemory(path, tell);
  // The state may be an old one: remembered as the newest, it would hide that from every later run.
  if (before === "unreadable") return {};
  const seal = encodeHex(vault.manifestSeal);
  const { generation, modified } = vault.manifest;
  const older = before === undefined ? undefined : findRollback(before, { seal, generation, modified });
  return { older, path, before };
}

/** Remembers a vault that was just written, no matter what was seen before. */
export async function rememberVault(vault: RememberedVault, engine: Engine, env: StateEnvironment): Promise<void> {
  const tell = (): void => undefined; // opening it has reported this already
  const folder = vault.keys.lane === "plain" ? undefined : await ownMemoryFolder(env, tell);
  if (folder === undefined) return;
  const path = await memoryPath(vault, engine, folder);
  const before = await readMemory(path, tell);
  await writeMemory(path, advance(before === "unreadable" ? undefined : before, vault), tell);
}

/** The folder of the memory if it is ours, and if there is one. */
async function ownMemoryFolder(env: StateEnvironment, tell: Tell): Promise<string | undefined> {
  const folder = vaultMemoryFolder(env);
  if (folder === undefined) tell("this user has no home folder");
  return folder !== undefined && (await isOurs(folder, tell)) ? folder : undefined;
}

async function memoryPath(vault: RememberedVault, engine: Engine, folder: string): Promise<string> {
  const id = await deriveFromMaster(engine, vault.keys, ID_INFO, ID_BYTES);
  return join(folder, `${encodeHex(id)}.json`);
}

interface Present {
  readonly seal: string;
  readonly generation: number | undefined;
  readonly modified: string;
}

function findRollback(before: Memory, { seal, generation, modified }: Present): string | undefined {
  if (before.seals.at(-1) === seal) return undefined;
  const areCounted = generation !== undefined && before.generation !== undefined;
  if (areCounted && generation < before.generation) {
    return `it is generation ${generation}, and ${before.generation} was seen`;
  }
  // Also if the count is higher: after a change by the reference it starts again.
  if (before.seals.includes(seal)) return `it is the vault as it was before ${before.modified}`;
  // Without both counts, only times are left; they are in whole seconds and sort as text.
  if (areCounted || modified >= before.modified) return undefined;
  return `it is of ${modified}, and one of ${before.modified} was seen`;
}

function advance(before: Memory | undefined, vault: RememberedVault): Memory {
  const { generation, modified } = vault.manifest;
  const seal = encodeHex(vault.manifestSeal);
  const seals = [...(before?.seals ?? []).filter((one) => one !== seal), seal].slice(-MAX_SEEN);
  return { generation, modified, seals };
}

/** Undefined if there is none. One that cannot be read is reported: it must not stop the user. */
async function readMemory(path: string, tell: Tell): Promise<Memory | "unreadable" | undefined> {
  try {
    const bytes = await readOwnFile(path, MAX_FILE_BYTES);
    if (bytes === undefined) {
      if (await isThere(path, tell)) return notOurs(path, tell);
      return undefined;
    }
    return parseMemory(Buffer.from(bytes).toString("utf8")) ?? notOurs(path, tell);
  } catch (error) {
    if (isAbsence(error)) return undefined;
    tell(reasonOf(error, `Cannot read "${path}"`));
    return "unreadable";
  }
}

function notOurs(path: string, tell: Tell): "unreadable" {
  tell(`"${path}" is damaged, or not what tare wrote; remove it to start again`);
  return "unreadable";
}

/** Undefined if the text is not that of a memory. */
function parseMemory(text: string): Memory | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { generation, modified, seals = [] } = value as Partial<Memory>;
  if (typeof modified !== "string" || !Array.isArray(seals)) return undefined;
  return {
    generation: typeof generation === "number" ? generation : undefined,
    modified,
    seals: seals.filter((one) => typeof one === "string"),
  };
}

function writeMemory(path: string, memory: Memory, tell: Tell): Promise<void> {
  return writeState(path, `${JSON.stringify(memory)}\n`, tell);
}

async function writeState(path: string, text: string, tell: Tell): Promise<void> {
  try {
    await makeFolder(dirname(path), 0o700);
    const sink = await fileSink(path, { overwrite: "replace", newMode: 0o600, readOnly: "replace" });
    try {
      await sink.append(encodeUtf8(text));
      await sink.commit();
    } catch (error) {
      await sink.abort();
      throw error;
    }
  } catch (error) {
    // No room or no rights in the home folder: the next run knows as little as this one.
    tell(reasonOf(error, `Cannot write "${path}"`));
  }
}
