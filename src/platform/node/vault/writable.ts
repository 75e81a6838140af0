import { stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { SourceError, UnsupportedError, UsageError } from "../../../base/errors.ts";
import { checkUnprotected, isMountPoint } from "../files/partial-files.ts";

/**
 * Refuses a vault that cannot or may not be written to. Every command that changes a vault asks this first, dry runs too,
 * so that all of them give the same answer before they ask for a password. `real` is the path with links followed; a path
 * that has no file yet is fine.
 */
export async function checkWritable(real: string, label: string): Promise<void> {
  await checkVaultFile(real, label);
  await checkNotMounted(real, label);
  await checkUnprotected(real, label);
}

/**
 * Refuses a device, a pipe or a socket: opening it could wait for ever, and no file can take its place. What is missing,
 * or a folder, opening tells better.
 */
export async function checkVaultFile(real: string, label: string): Promise<void> {
  const facts = await stat(real).catch(() => undefined);
  if (facts === undefined || facts.isFile() || facts.isDirectory()) return;
  const message = `Cannot lock or change "${label}": it is a device, pipe or socket, not a file`;
  throw new UsageError("usage/not-a-file", message, { source: label }, { hint: "Name the vault itself" });
}

/** True if `checkWritable` does not refuse. For repairs that a command makes along the way, but only if it can. */
export async function isWritable(real: string): Promise<boolean> {
  return checkWritable(real, real).then(
    () => true,
    () => false,
  );
}

/**
 * Refuses a file that is itself a mount point, as containers mount single files: no other file can take its place, and
 * writers that use the original path see a different lock file.
 */
async function checkNotMounted(real: string, label: string): Promise<void> {
  if (!(await isMountPoint(real))) return;
  const message = `Cannot change "${label}": the file itself is mounted here, so that other writers of it cannot be seen, and no other file can take its place`;
  const hint = "Mount the folder that it is in, or change it where it comes from";
  throw new UnsupportedError("unsupported/vault.mount", message, { source: label }, { hint });
}

/** Room that must be left on the disk beyond what a change is known to take. */
const SPARE_BYTES = 1 << 20;

/** Refuses before the work, not after it. */
export async function checkRoom(path: string, label: string, byteLength: number): Promise<void> {
  const free = await freeBytes(path);
  const needed = byteLength + SPARE_BYTES;
  if (free >= needed) return;
  throw new SourceError(
    "source/no-space",
    `Cannot write "${label}": ${needed} bytes are needed (${SPARE_BYTES} of them to spare), ${free} are free`,
    { source: label },
    { hint: "Free some room on the disk first; the vault is unchanged" },
  );
}

/** True if the disk of a vault has room for this many more bytes. */
export async function hasRoomFor(path: string, byteLength: number): Promise<boolean> {
  return (await freeBytes(path)) >= byteLength + SPARE_BYTES;
}

/** Infinity on a system that does not tell: then writing fails. */
async function freeBytes(path: string): Promise<number> {
  const facts = await statfs(dirname(path)).catch(() => undefined);
  // File systems that do not count report 0 of 0 blocks.
  return facts === undefined || facts.blocks === 0 ? Number.POSITIVE_INFINITY : facts.bavail * facts.bsize;
}
