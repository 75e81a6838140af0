import { lstat, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { isTareError, SourceError, UnsupportedError, UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { INNER_MARK, splitInnerPaths } from "../../bytes/resolver.ts";
import { isS3Url } from "../../bytes/s3/address.ts";
import { findPathFault, normalizePath } from "../../formats/aerovault/paths.ts";
import { errnoOf, fileError } from "./errors.ts";

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
