import { UnsupportedError } from "../../../base/errors.ts";
import { checkUnprotected, isMountPoint } from "../files/partial-files.ts";

/**
 * Refuses a vault that cannot or may not be written to. Every command that changes a vault asks this first, dry runs too,
 * so that all of them give the same answer before they ask for a password. `real` is the path with links followed; a path
 * that has no file yet is fine.
 */
export async function checkWritable(real: string, label: string): Promise<void> {
  await checkNotMounted(real, label);
  await checkUnprotected(real, label);
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
