/** Changing vaults on disk: what commands and the library call. */

export type { VaultWriteContext } from "./change.ts";
export { checkVaultPlace, createVaultFile } from "./create.ts";
export { lockVault, releaseAllVaultLocks } from "./lock.ts";
export { type Added, type AddedStream, addToVaultFile } from "./verbs/add.ts";
export { makeVault, type NewVault } from "./verbs/create.ts";
export { extractToFolder } from "./verbs/extract.ts";
export { embedVaultParity, exportSidecar, stripVaultParity } from "./verbs/parity.ts";
export { changeVaultPassword } from "./verbs/password.ts";
export { type ChangeTarget, type TargetOptions, targetOf } from "./verbs/target.ts";
export { copyVaultEntry, makeVaultDirectories, moveVaultEntry, removeVaultEntries } from "./verbs/tree.ts";
export { type UpgradeVaultResult, upgradeVault, type VaultUpgrade } from "./verbs/upgrade.ts";
export { compactVault, repairVaultFile, type SealedReport, scrubSealed, uncheckedText } from "./verbs/upkeep.ts";
export { vaultFileFacts, vaultFilePlace } from "./verbs/writer.ts";
