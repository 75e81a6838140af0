import type {
  VaultCopyResult,
  VaultMkdirResult,
  VaultMoveResult,
  VaultRemoveResult,
} from "../../../../api/vault/results.ts";
import type { VaultEdit } from "../../../../formats/aerovault/write/edit.ts";
import {
  checkMove,
  copyEntry,
  entryPath,
  makeDirectories,
  moveEntry,
  removeEntries,
  type TreeChange,
} from "../../../../operations/vault/tree.ts";
import type { ChangeTarget } from "./target.ts";

/** Makes directories in a vault, with those above them. */
export async function makeVaultDirectories(target: ChangeTarget, typed: readonly string[]): Promise<VaultMkdirResult> {
  const directories = typed.map((path) => entryPath(path, target.source));
  const done = await change(target, (edit) => makeDirectories(edit, directories));
  return { ...factsOf(target), directories, ...done };
}

/** Removes all of the entries, or none. */
export async function removeVaultEntries(
  target: ChangeTarget,
  typed: readonly string[],
  options: { readonly recursive?: boolean | undefined },
): Promise<VaultRemoveResult> {
  const { source } = target;
  const entries = typed.map((path) => entryPath(path, source));
  const depth = options.recursive === true ? "recursive" : "empty";
  const done = await change(target, (edit) => removeEntries(edit, entries, { depth, source }));
  return { ...factsOf(target), entries, ...done };
}

/** Gives an entry, and everything below it, another path. */
export async function moveVaultEntry(target: ChangeTarget, from: string, to: string): Promise<VaultMoveResult> {
  const move = { from, to, source: target.source };
  checkMove(move);
  return { ...factsOf(target), ...(await change(target, (edit) => moveEntry(edit, move))) };
}

/** Adds a second entry with the same contents. */
export async function copyVaultEntry(target: ChangeTarget, from: string, to: string): Promise<VaultCopyResult> {
  const move = { from, to, source: target.source };
  checkMove(move);
  return { ...factsOf(target), ...(await change(target, (edit) => copyEntry(edit, move))) };
}

async function change<T>(target: ChangeTarget, make: (edit: VaultEdit) => TreeChange<T>): Promise<T> {
  return (await target.commit({ apply: async (edit) => make(edit) })).result;
}

function factsOf({ vault, dryRun }: ChangeTarget): { readonly vault: string; readonly dryRun: boolean } {
  return { vault, dryRun };
}
