import { lstat, open, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { isTareError, SourceError, UnsupportedError, UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { INNER_MARK, splitInnerPaths } from "../../bytes/resolver.ts";
import { isS3Url } from "../../bytes/s3/address.ts";
import { SIDECAR_SUFFIX } from "../../formats/aerocorrect/layout.ts";
import { findPathFault, normalizePath } from "../../formats/aerovault/paths.ts";
import { errnoOf, fileError } from "./errors.ts";
import { journalPath } from "./vault-journal.ts";
import { vaultLockPath } from "./vault-lock.ts";
/** A file inside a vault, as the place of an output. */
export interface VaultPath {
  /** The vault's path on disk. */
  readonly vault: string;
  /** Path inside it. */
  readonly entry: string;
}

/** The text by which it is opened again. */
export function vaultPathText({ vault, entry }: VaultPath): string {
  return `${vault}${INNER_MARK}${entry}`;
}

/**
 * What an output named VAULT::path means; undefined for one that is a path on disk. Never the latter by mistake: whoever
 * names a vault takes what is written for encrypted. So a name with `::` in it is a path on disk only where what has the `::`
 * is there already, a folder or a file to be replaced.
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
 * Refuses an address as the place of an output: as a path on disk it would make folders that are named after what it says,
 * the password too. `stores` is what the command can write to besides the disk.
 */
export function refuseAddress(text: string, stores: "s3" | "none"): void {
  const [outer = ""] = splitInnerPaths(text);
  const scheme = /^[a-z][a-z0-9+.-]+:\/\//i.exec(outer)?.[0]; // two letters at least: "c:" is a drive
  if (scheme === undefined || (stores === "s3" && isS3Url(outer))) return;
  // What was meant is not known, so nothing of it is repeated that could be secret.
  const source = outer.replace(/\/\/.*@/s, "//…@").replace(/[?#].*/s, "?…");
  const message = `Cannot write "${scheme}…": outputs are not written to such addresses`;
  const hint = stores === "s3" ? "Use a path or s3://" : "Use a path; tare push uploads what was written to s3://";
  throw new UnsupportedError("unsupported/scheme", message, { source }, { hint });
}

/** Refuses a path inside a vault, or where one would have to be: for what cannot be stored there. */
export async function refuseVaultPath(text: string, what: string): Promise<void> {
  if ((await findVaultPath(text)) !== undefined) throw notStored(text, what);
}

/** The last line of defence, of what writes files: refuses a path inside a vault that is there. */
export async function checkOutsideVaults(text: string): Promise<void> {
  if (!text.includes(INNER_MARK)) return;
  const path = await findVaultPath(text).catch((error: unknown) => {
    // A name that begins with that of a file on disk, such as the signature of "a::b".
    if (isTareError(error) && error.code === "source/not-found") return undefined;
    throw error;
  });
  if (path !== undefined) throw notStored(text, "this");
}

/** A file on disk that a command reads, or that it changes in its place. */
export interface InputFile {
  readonly path: string;
  /** "vault" for what holds more than the command takes out of it. */
  readonly kind: "vault" | "plain";
}

export interface KeepOptions {
  /** "rewritten" where a plain input may give way to what was made of all of it, in one rename at the end. */
  readonly inputs?: "kept" | "rewritten" | undefined;
  /** "written" by a command that makes sidecars, of which an older one may be in the way. */
  readonly sidecars?: "written" | undefined;
}

/**
 * Refuses an output that is a file which the command reads, by whatever name, or that belongs to one: --force is meant for
 * earlier outputs. What would be lost is the vault, and all that was not taken out of it; or the lock that keeps writers apart.
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
      const isVault = kind === "vault" || (await looksLikeVault(path));
      if (options.inputs !== "rewritten" || isVault) throw ownInput(output, path, isVault ? "vault" : "plain");
    }
    const real = await realpath(path).catch(() => path); // not there: its name is still not to be taken
    for (const file of new Set([...filesBeside(resolve(path)), ...filesBeside(real)])) {
      if (options.sidecars === "written" && file.endsWith(SIDECAR_SUFFIX)) continue;
      if (isSamePlace(place, await placeOf(file))) throw ownInput(output, path, "vault");
    }
  }
}

/** What belongs to a vault and stands beside it: sidecar, lock and journal. */
export function filesBeside(vault: string): readonly string[] {
  return [`${vault}${SIDECAR_SUFFIX}`, vaultLockPath(vault), journalPath(vault)];
}

interface DiskPlace {
  /** What tells files apart, whatever names lead to them; undefined where there is none. */
  readonly identity: string | undefined;
  readonly path: string;
}

async function placeOf(path: string): Promise<DiskPlace> {
  const full = resolve(path);
  const [facts, folder] = await Promise.all([
    stat(full, { bigint: true }).catch(() => undefined), // nothing there, or nothing that may be seen: opening tells
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

/** Case apart where the file system may not tell: refusing a name too many costs less than a vault. */
export function isSameName(one: string, other: string): boolean {
  return one === other || (process.platform !== "linux" && one.toLowerCase() === other.toLowerCase());
}

/** By its first bytes; those of version 1 are ZIP files. */
async function looksLikeVault(path: string): Promise<boolean> {
  const handle = await open(path, "r").catch(() => undefined); // opening it for the command tells why
  if (handle === undefined) return false;
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(VAULT_HEAD_BYTES), 0, VAULT_HEAD_BYTES, 0);
    const head = buffer.toString("latin1", 0, bytesRead);
    return ["AEROVAULT", "PK\u0003\u0004"].some((magic) => head.startsWith(magic));
  } finally {
    await handle.close();
  }
}

/** As long as the word that vaults begin with. */
const VAULT_HEAD_BYTES = 9;

function ownInput(output: string, path: string, kind: InputFile["kind"]): UsageError {
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
  const entry = normalizePath(typed);
  const fault = findPathFault(entry);
  if (fault === undefined) return entry;
  const message = `Cannot use "${printable(typed)}" as a path in a vault: ${fault}`;
  throw new UsageError("usage/vault.path", message, { source: "command line" });
}

/** Undefined for what is not there; what the system does not let us see may well be, and is told. */
function ifAbsent(text: string): (error: unknown) => undefined {
  return (error) => {
    // Names with :: in them may be too long for a file without being so for a vault and its entry.
    if (["ENOENT", "ENOTDIR", "ENAMETOOLONG"].includes(errnoOf(error) ?? "")) return undefined;
    throw fileError(error, `Cannot write "${text}"`, { source: text });
  };
}

/** True where the file is there, or everything with `::` in it belongs to a folder that is. */
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
