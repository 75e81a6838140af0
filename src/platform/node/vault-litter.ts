import { readdir, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { SIDECAR_SUFFIX } from "../../formats/aerocorrect/layout.ts";
import { partialPrefix } from "./partial-files.ts";
import { isLeftBehind } from "./stale-partials.ts";

/**
 * Removes what killed writers left beside a vault: unfinished copies of it and of its sidecar, which hold its key slots, and
 * locks that were never put in place. The caller has the lock. Files of processes that still run, or of another machine or
 * container, are left alone: not all that write beside a vault have its lock.
 */
export async function removeVaultLitter(vault: string): Promise<void> {
  const folder = dirname(vault);
  const name = basename(vault);
  const prefixes = [partialPrefix(name), partialPrefix(`${name}${SIDECAR_SUFFIX}`), `.${name}.lock.`];
  // Where the folder may not be listed, writing the vault may still be allowed.
  for (const file of await readdir(folder).catch(() => [])) {
    const prefix = prefixes.find((one) => file.startsWith(one));
    if (prefix === undefined || !isLeftBehind(file.slice(prefix.length))) continue;
    await unlink(join(folder, file)).catch(() => undefined); // somebody else was faster, or it is not ours to remove
  }
}
