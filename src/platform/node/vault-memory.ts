import { createHash } from "node:crypto";
import { access, realpath, stat, unlink } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { equalBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { encodeHex, encodeUtf8 } from "../../base/text.ts";
import { INNER_MARK } from "../../bytes/resolver.ts";
import { deriveFromMaster, type Lane } from "../../formats/aerovault/keys.ts";
import type { Vault } from "../../formats/aerovault/vault.ts";
import type { Finding } from "../../model/finding.ts";
import type { EncryptionRule } from "../../model/format.ts";
import type { Engine } from "../../primitives/engine.ts";
import { errnoOf, fileError } from "./errors.ts";
import { readFileBeside } from "./file-reads.ts";
import { fileSink } from "./file-sink.ts";
import { makeFolder } from "./make-folder.ts";
import { foreignFolder } from "./own-folder.ts";
import { readVaultMark } from "./vault-mark.ts";

/** Label of the id by which a vault is remembered: it tells nothing about the keys. */
const ID_INFO = "tare vault id v1";
const ID_BYTES = 16;
/** States that are remembered; older ones are forgotten, and their generations still tell. */
const MAX_SEEN = 4096;
/** A longer file is not ours. */
const MAX_FILE_BYTES = 1 << 20;
/** Characters of a place's SHA-256 that name its file. */
const PLACE_DIGITS = 32;

/** The part of a vault that memory needs. */
export type RememberedVault = Pick<Vault, "keys" | "manifest" | "manifestSeal">;

interface Memory {
  /** Of the state last seen; absent where the reference wrote that, as it keeps no count. */
  readonly generation?: number | undefined;
  readonly modified: string;
  /** Nonces and tags of manifests, oldest first; the last one is the present. Headers would not do: those of two states can be equal. */
  readonly seals: readonly string[];
}

export type StateEnvironment = Readonly<Record<string, string | undefined>>;

/** What a vault was opened by: a path, URL or `-`, and names inside archives. */
export interface VaultPlace {
  readonly outer: string;
  readonly inner: readonly string[];
}

/** How what is remembered is used. */
export interface RecallContext {
  readonly engine: Engine;
  readonly env: StateEnvironment;
  /** "waived" where the user says that a vault without encryption is meant: what was remembered of its place is forgotten. */
  readonly encryption?: EncryptionRule | undefined;
  /** Told once a vault, where what was seen of vaults can neither be read nor kept. */
  readonly onWarning?: ((finding: Finding) => void) | undefined;
}

/** Takes why nothing can be remembered. */
type Tell = (why: string) => void;

/** Where memories are kept. */
export function vaultMemoryFolder(env: StateEnvironment): string {
  return join(stateFolder(env), "vaults");
}

function stateFolder(env: StateEnvironment): string {
  const state = env["XDG_STATE_HOME"];
  return join(state?.startsWith("/") === true ? state : join(homedir(), ".local", "state"), "tare");
}

/**
 * Compares an opened vault with what was last seen at its place, and of itself, and remembers it. Throws
 * `usage/vault.was-encrypted`; gives a warning where it is older.
 */
export async function recallOpened(
  vault: RememberedVault,
  place: VaultPlace,
  context: RecallContext,
): Promise<Finding | undefined> {
  const tell = tellOnce(place, context);
  await compareLane(vault.keys.lane, place, context, tell);
  const older = await recallVault(vault, context.engine, context.env, tell);
  if (older === undefined || (await hasMovedOn(vault, place))) return undefined;
  const source = placeText(place);
  const message = `"${source}" is older than the one last seen: ${older}`;
  return { severity: "warning", code: "integrity/vault.older", message, at: { source } };
}

/**
 * True where another state is in the vault's place by now: a writer has ended and remembered it after this one was opened,
 * which was the newest then.
 */
async function hasMovedOn({ manifestSeal }: RememberedVault, { outer, inner }: VaultPlace): Promise<boolean> {
  if (inner.length > 0 || !(await isRegularFile(outer))) return false;
  const mark = await readVaultMark(outer, outer).catch(() => undefined); // no file, or none that can be read any more
  return mark?.manifestSeal !== undefined && !equalBytes(mark.manifestSeal, manifestSeal);
}

function isRegularFile(path: string): Promise<boolean> {
  return stat(path).then(
    (facts) => facts.isFile(),
    () => false,
  );
}

/**
 * Compares the lane of a vault with the one that was last seen at its place, under any of its names. A vault that was
 * encrypted and is not any more is refused: whoever put it there needed no key.
 */
export function recallLane(
  lane: Lane,
  place: VaultPlace,
  context: Pick<RecallContext, "env" | "encryption" | "onWarning">,
): Promise<void> {
  return compareLane(lane, place, context, tellOnce(place, context));
}

async function compareLane(
  lane: Lane,
  place: VaultPlace,
  { env, encryption }: Pick<RecallContext, "env" | "encryption">,
  tell: Tell,
): Promise<void> {
  const paths = await laneFiles(place, env);
  const [first] = paths;
  if (first === undefined || !(await isOurs(dirname(first), tell))) return;
  for (const path of paths) {
    const wasEncrypted = await isThere(path, tell);
    if (lane === "encrypted") {
      if (!wasEncrypted) await writeState(path, "encrypted\n", tell);
    } else if (wasEncrypted) {
      if (encryption !== "waived") throw wasEncryptedError(placeText(place));
      await unlink(path).catch(() => undefined); // asked again the next time
    }
  }
}

function placeText({ outer, inner }: VaultPlace): string {
  return [outer, ...inner].join(INNER_MARK);
}

/** A vault opens all the same: only the first reason is told, as the others most often are the same. */
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

/** False where others could have put there what a folder of ours says, or could take it away: then it says nothing. */
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
    "Somebody may have exchanged it. Where it is meant to have no encryption, pass --no-encryption once: the place is open to such vaults from then on, where no password is given";
  return new UsageError("usage/vault.was-encrypted", message, { source }, { hint });
}

/** Files whose presence says that a place had an encrypted vault. A link and what it leads to are two places. */
async function laneFiles({ outer, inner }: VaultPlace, env: StateEnvironment): Promise<string[]> {
  if (outer === "-") return [];
  const isUrl = /^[a-z][a-z0-9+.-]+:\/\//i.test(outer);
  const names = isUrl
    ? [outer.replace(/\/\/[^/]*@/, "//")]
    : [...new Set([resolve(outer), await realpath(outer).catch(() => resolve(outer))])];
  return names.map((name) => {
    const digest = createHash("sha256")
      .update([name, ...inner].join(INNER_MARK))
      .digest("hex");
    return join(stateFolder(env), "encrypted-places", digest.slice(0, PLACE_DIGITS));
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

/** Anything else says only that we cannot know. */
function isAbsence(error: unknown): boolean {
  return ["ENOENT", "ENOTDIR"].includes(errnoOf(error) ?? "");
}

function reasonOf(error: unknown, action: string): string {
  const named = fileError(error, action, { source: "state" });
  return named instanceof Error ? named.message : String(named);
}

/**
 * Compares a vault with what was last seen of it, and remembers it. The text of a warning where it is older: its generation is
 * lower, or its manifest was seen before and replaced since. Undefined otherwise, also where nothing can be remembered. A
 * vault without encryption has no secret to be remembered by.
 */
export async function recallVault(
  vault: RememberedVault,
  engine: Engine,
  env: StateEnvironment,
  tell: Tell = () => undefined,
): Promise<string | undefined> {
  if (vault.keys.lane === "plain" || !(await isOurs(vaultMemoryFolder(env), tell))) return undefined;
  const path = await memoryPath(vault, engine, env);
  const before = await readMemory(path, tell);
  const seal = encodeHex(vault.manifestSeal);
  const { generation, modified } = vault.manifest;
  const problem = before === undefined ? undefined : findRollback(before, { seal, generation, modified });
  if (problem === undefined && before?.seals.at(-1) !== seal) await writeMemory(path, advance(before, vault), tell);
  return problem;
}

/** Remembers a vault that was just written, whatever was seen before. */
export async function rememberVault(vault: RememberedVault, engine: Engine, env: StateEnvironment): Promise<void> {
  const tell = (): void => undefined; // whoever opened it was told
  if (vault.keys.lane === "plain" || !(await isOurs(vaultMemoryFolder(env), tell))) return;
  const path = await memoryPath(vault, engine, env);
  await writeMemory(path, advance(await readMemory(path, tell), vault), tell);
}

async function memoryPath(vault: RememberedVault, engine: Engine, env: StateEnvironment): Promise<string> {
  const id = await deriveFromMaster(engine, vault.keys, ID_INFO, ID_BYTES);
  return join(vaultMemoryFolder(env), `${encodeHex(id)}.json`);
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
  // Also where the count is higher: after a change by the reference it begins again.
  if (before.seals.includes(seal)) return `it is the vault as it was before ${before.modified}`;
  // Without a count of both, only times are left; they are of whole seconds and sort as text.
  if (areCounted || modified >= before.modified) return undefined;
  return `it is of ${modified}, and one of ${before.modified} was seen`;
}

function advance(before: Memory | undefined, vault: RememberedVault): Memory {
  const { generation, modified } = vault.manifest;
  const seal = encodeHex(vault.manifestSeal);
  const seals = [...(before?.seals ?? []).filter((one) => one !== seal), seal].slice(-MAX_SEEN);
  return { generation, modified, seals };
}

/** Undefined where there is none, or one that cannot be read: memory is a help, never a hindrance. */
async function readMemory(path: string, tell: Tell): Promise<Memory | undefined> {
  try {
    const bytes = await readFileBeside(path, MAX_FILE_BYTES);
    if (bytes === undefined) return undefined;
    const value = JSON.parse(Buffer.from(bytes).toString("utf8")) as Partial<Memory>;
    const { generation, modified, seals = [] } = value;
    if (typeof modified !== "string" || !Array.isArray(seals)) return undefined;
    return {
      generation: typeof generation === "number" ? generation : undefined,
      modified,
      seals: seals.filter((one) => typeof one === "string"),
    };
  } catch (error) {
    const isOfSystem = errnoOf(error) !== undefined;
    if (isOfSystem && !isAbsence(error)) tell(reasonOf(error, `Cannot read "${path}"`));
    return undefined;
  }
}

function writeMemory(path: string, memory: Memory, tell: Tell): Promise<void> {
  return writeState(path, `${JSON.stringify(memory)}\n`, tell);
}

async function writeState(path: string, text: string, tell: Tell): Promise<void> {
  try {
    await makeFolder(dirname(path), 0o700);
    const sink = await fileSink(path, { overwrite: "replace" });
    await sink.append(encodeUtf8(text));
    await sink.commit();
  } catch (error) {
    // A home without room or rights: the next run knows as little as this one.
    tell(reasonOf(error, `Cannot write "${path}"`));
  }
}
