import { lstat, open, realpath, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isTareError, SourceError, UnsupportedError, UsageError } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import { INNER_MARK, splitInnerPaths } from "../../../bytes/resolver.ts";
import { isS3Url } from "../../../bytes/s3/address.ts";
import { SIDECAR_SUFFIX } from "../../../formats/aerocorrect/layout.ts";
import { findPathFault, withoutSlashes } from "../../../formats/aerovault/paths.ts";
import { errnoOf, fileError, fullPath } from "../errors.ts";
import { journalPath } from "../vault/journal.ts";
import { vaultLockPath } from "../vault/lock.ts";
/** A file inside a vault, as the place of an output. */
export interface VaultPath {
  /** The vault's path on disk. */
  readonly vault: string;
  /** Path inside it. */
  readonly entry: string;
}

/** The text that opens it again. */
export function vaultPathText({ vault, entry }: VaultPath): string {
  return `${vault}${INNER_MARK}${entry}`;
}

/**
 * What an output named VAULT::path means; undefined for a path on disk. It must never become a path on disk by mistake:
 * a user who names a vault expects encrypted output. So a name with `::` in it is a path on disk only if the part with
 * the `::` exists already, as a folder or as a file to replace.
 */
export async function findVaultPath(text: string): Promise<VaultPath | undefined> {
  const parts = splitInnerPaths(text);
  if (parts.length === 1) return undefined;
  const [outer = ""] = parts;
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(outer))
    throw elsewhere(text, "only a vault that is a file of this machine can be");
  for (let taken = 1; taken < parts.length; taken++) {
    const vault = parts.slice(0, taken).join(INNER_MARK);
    if ((await stat(vault).catch(ifAbsent(text)))?.isDirectory() !== false) continue;
    if ((await lstat(text).catch(ifAbsent(text))) !== undefined) throw ambiguous(text, vault);
    if (parts.length - taken > 1) throw elsewhere(text, "a vault inside a vault cannot be");
    return { vault, entry: checkEntry(parts[taken] as string) };
  }
  if (await isOnDisk(text)) return undefined;
  const message = `Cannot write "${text}": there is no vault "${outer}"`;
  const hint = "Make it first with tare vault create; a name of your own must not have :: in it";
  throw new SourceError("source/not-found", message, { source: outer }, { hint });
}

/**
 * Refuses an address as the place of an output: as a path on disk it would make folders named after its parts,
 * including a password. `stores` is what the command can write to besides the disk.
 */
export function refuseAddress(text: string, stores: "s3" | "none"): void {
  const [outer = ""] = splitInnerPaths(text);
  const scheme = /^[a-z][a-z0-9+.-]+:\/\//i.exec(outer)?.[0]; // at least two letters: "c:" is a drive
  if (scheme === undefined || (stores === "s3" && isS3Url(outer))) return;
  // Its meaning is unknown, so the message does not repeat any part that could be secret.
  const source = outer.replace(/\/\/.*@/s, "//…@").replace(/[?#].*/s, "?…");
  const message = `Cannot write "${scheme}…": outputs are not written to such addresses`;
  const hint = stores === "s3" ? "Use a path or s3://" : "Use a path; tare push uploads what was written to s3://";
  throw new UnsupportedError("unsupported/scheme", message, { source }, { hint });
}

/** Refuses a path inside a vault, or one that can only mean a vault: for outputs that cannot be stored there. */
export async function refuseVaultPath(text: string, what: string): Promise<void> {
  if ((await findVaultPath(text)) !== undefined) throw notStored(text, what);
}

/** The last check before a file is written: refuses a path inside an existing vault. */
export async function checkOutsideVaults(text: string): Promise<void> {
  if (!text.includes(INNER_MARK)) return;
  const path = await findVaultPath(text).catch((error: unknown) => {
    // A name that begins with the name of a file on disk, such as the signature of "a::b".
    if (isTareError(error) && error.code === "source/not-found") return undefined;
    throw error;
  });
  if (path !== undefined) throw notStored(text, "this");
}

/** A file on disk that a command reads, or changes in place. */
export interface InputFile {
  readonly path: string;
  /**
   * "vault" for a file that holds more than the command takes out of it, "plain" for a model that an output may be made
   * of, "kept" for any other file that is read: passwords, keys, settings, files beside a model.
   */
  readonly kind: "vault" | "plain" | "kept";
}

export interface KeepOptions {
  /** "rewritten" if a plain input may be replaced by an output made of all of it, in one rename at the end. */
  readonly inputs?: "kept" | "rewritten" | undefined;
  /** "written" for a command that makes sidecars and may replace an older one. */
  readonly sidecars?: "written" | undefined;
}

/**
 * Refuses an output that is an input of the command, under any name, or that belongs to one: --force is meant for
 * earlier outputs. Otherwise the vault would be lost with everything that was not taken out of it, or the lock that
 * keeps writers apart.
 */
export async function checkInputsKept(
  output: string,
  inputs: readonly InputFile[],
  options: KeepOptions = {},
): Promise<void> {
  if (inputs.length === 0) return;
  const place = await placeOf(output);
  for (const { path, kind } of inputs) {
    if (isSamePlace(place, await placeOf(path))) {
      const isVault = kind === "vault" || (kind === "plain" && (await looksLikeVault(path)));
      const isRewritten = options.inputs === "rewritten" && kind === "plain" && !isVault;
      if (!isRewritten) throw ownInput(output, path, isVault ? "vault" : "plain");
    }
    if (kind === "kept") continue; // no files belong to it
    const real = await realpath(path).catch(() => path); // not there: its name is still not to be taken
    for (const file of new Set([...filesBeside(fullPath(path)), ...filesBeside(real)])) {
      if (options.sidecars === "written" && file.endsWith(SIDECAR_SUFFIX)) continue;
      if (isSamePlace(place, await placeOf(file))) throw ownInput(output, path, "vault");
    }
  }
}

/**
 * True if a model is read from several files. An output is none of them then: under the name of one, with the others
 * beside it, it would be neither the set nor a file of its own.
 */
export async function areSeveralFiles(inputs: readonly InputFile[]): Promise<boolean> {
  const plain = inputs.filter(({ kind }) => kind === "plain");
  const found = await Promise.all(
    plain.map(({ path }) => stat(fullPath(path), { bigint: true }).catch(() => undefined)),
  );
  const files = found.filter((facts) => facts?.isFile() === true);
  return new Set(files.map((facts) => `${facts?.dev}:${facts?.ino}`)).size > 1;
}

/** The files that belong to a vault and are beside it: sidecar, lock and journal. */
export function filesBeside(vault: string): readonly string[] {
  return [`${vault}${SIDECAR_SUFFIX}`, vaultLockPath(vault), journalPath(vault)];
}

interface DiskPlace {
  /** Identifies a file independently of its names; undefined if there is no file. */
  readonly identity: string | undefined;
  readonly path: string;
}

async function placeOf(path: string): Promise<DiskPlace> {
  const full = fullPath(path);
  const [facts, folder] = await Promise.all([
    stat(full, { bigint: true }).catch(() => undefined), // missing or not visible: opening reports it
    realpath(dirname(full)).catch(() => dirname(full)),
  ]);
  return {
    identity: facts === undefined ? undefined : `${facts.dev}:${facts.ino}`,
    path: join(folder, basename(full)),
  };
}

function isSamePlace(one: DiskPlace, other: DiskPlace): boolean {
  return (one.identity !== undefined && one.identity === other.identity) || isSameName(one.path, other.path);
}

/** Ignores case on systems that may ignore it: refusing one name too many costs less than losing a vault. */
export function isSameName(one: string, other: string): boolean {
  return one === other || (process.platform !== "linux" && one.toLowerCase() === other.toLowerCase());
}

/** Checks the first bytes; vaults of version 1 are ZIP files. */
async function looksLikeVault(path: string): Promise<boolean> {
  const handle = await open(path, "r").catch(() => undefined); // opening it for the command reports why
  if (handle === undefined) return false;
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(VAULT_HEAD_BYTES), 0, VAULT_HEAD_BYTES, 0);
    const head = buffer.toString("latin1", 0, bytesRead);
    return ["AEROVAULT", "PK\u0003\u0004"].some((magic) => head.startsWith(magic));
  } catch (error) {
    throw fileError(error, `Cannot read "${path}"`, { source: path });
  } finally {
    await handle.close();
  }
}

/** Length of the word at the start of vaults. */
const VAULT_HEAD_BYTES = 9;

/** Refuses an output that would take the place of a file that is read; "vault" if that is one, or belongs to one. */
export function ownInput(output: string, path: string, kind: "vault" | "plain"): UsageError {
  const hint = "Choose another name";
  if (kind === "vault") {
    const message = `Cannot write "${output}": it is "${path}", which this command works with, or a file that belongs to it`;
    return new UsageError("usage/vault.own-file", message, { source: output }, { hint });
  }
  const message = `Cannot write "${output}": this command reads that file, which would be lost`;
  return new UsageError("usage/own-input", message, { source: output }, { hint });
}

function notStored(text: string, what: string): UsageError {
  const message = `Cannot write "${text}": ${what} cannot be stored in a vault directly`;
  const hint = "Write to disk, and add it with tare vault add";
  return new UsageError("usage/vault.output", message, { source: text }, { hint });
}

function checkEntry(typed: string): string {
  const entry = withoutSlashes(typed);
  const fault = findPathFault(entry);
  if (fault === undefined) return entry;
  const message = `Cannot use "${printable(typed)}" as a path in a vault: ${fault}`;
  throw new UsageError("usage/vault.path", message, { source: "command line" });
}

/** Undefined for a missing file. A file that the system hides from us may exist, so other errors are thrown. */
function ifAbsent(text: string): (error: unknown) => undefined {
  return (error) => {
    // A name with :: in it may be too long for one file, but not for a vault and its entry.
    if (["ENOENT", "ENOTDIR", "ENAMETOOLONG"].includes(errnoOf(error) ?? "")) return undefined;
    throw fileError(error, `Cannot write "${text}"`, { source: text });
  };
}

/** True if the file exists, or if every part with `::` in it belongs to an existing folder. */
async function isOnDisk(text: string): Promise<boolean> {
  if ((await lstat(text).catch(ifAbsent(text))) !== undefined) return true;
  let folder = dirname(text);
  while ((await stat(folder).catch(ifAbsent(text)))?.isDirectory() !== true) {
    const above = dirname(folder);
    if (above === folder) return false;
    folder = above;
  }
  return !text.slice(folder === "." ? 0 : folder.length).includes(INNER_MARK);
}

function elsewhere(text: string, why: string): UnsupportedError {
  const message = `Cannot write "${text}": ${why} changed`;
  const hint = "Write to disk, and store it from there";
  return new UnsupportedError("unsupported/vault.place", message, { source: text }, { hint });
}

function ambiguous(text: string, vault: string): UsageError {
  const message = `Cannot write "${text}": a file has that name, and "${vault}" is a file too`;
  const hint = "Rename one of them";
  return new UsageError("usage/vault.output", message, { source: text }, { hint });
}
