import type { CreateVaultOptions, RepairVaultOptions } from "../../../api/vault/options.ts";
import type { RepairVaultResult } from "../../../api/vault/results.ts";
import type { Vault } from "../../../api/vault/vault.ts";

/** Vaults in Node: read from everywhere, made and changed on disk. */
import { nodeVerbs } from "../verbs/index.ts";

export type * from "../../../api/vault/index.ts";
export { Vault } from "../../../api/vault/vault.ts";

export const { openVault } = nodeVerbs;

/**
 * Makes an empty vault on disk, and opens it. With `dryRun` it is closed already: only `toJSON` can be asked.
 *
 * @example
 * await using vault = await createVault("reports.aerovault", { password: "correct horse battery" });
 * await vault.add("reports", { exclude: "*.tmp" });
 */
export async function createVault(path: string | URL, options?: CreateVaultOptions): Promise<Vault> {
  return (await import("./verbs/library.ts")).createVault(path, options);
}

/**
 * Heals a vault from the parity in it and from its sidecar, all of it or nothing. It is a function of its own because a
 * damaged vault may not open.
 *
 * @example
 * const { state, lostFiles } = await repairVault("reports.aerovault", { password: "correct horse battery" });
 */
export async function repairVault(path: string | URL, options?: RepairVaultOptions): Promise<RepairVaultResult> {
  return (await import("./verbs/library.ts")).repairVault(path, options);
}
