/** Vaults everywhere: this entry reads them. In Node it also makes and changes them. */
import { UsageError } from "../../base/errors.ts";
import { portableVerbs } from "../verbs.ts";
import type { CreateVaultOptions, RepairVaultOptions } from "./options.ts";
import type { RepairVaultResult } from "./results.ts";
import type { Vault } from "./vault.ts";

export type * from "../types.ts";
export type * from "./results.ts";
export { Vault } from "./vault.ts";

export const { openVault } = portableVerbs;

/** Makes a vault on disk: in Node. */
export async function createVault(path: string, _options?: CreateVaultOptions): Promise<Vault> {
  throw onlyInNode("create", path);
}

/** Heals a vault on disk: in Node. */
export async function repairVault(path: string, _options?: RepairVaultOptions): Promise<RepairVaultResult> {
  throw onlyInNode("repair", path);
}

function onlyInNode(verb: string, path: string): UsageError {
  const message = `Cannot ${verb} a vault here: without a file system there are no paths`;
  const hint = 'In Node, the same names of "tare/vault" do it';
  return new UsageError("usage/vault.read-only", message, { source: String(path) }, { hint });
}
