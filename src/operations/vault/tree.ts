import { UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { findPathFault, withoutSlashes } from "../../formats/aerovault/paths.ts";
import type { VaultEdit } from "../../formats/aerovault/write/edit.ts";

/** What a change of entries alone did. */
export interface TreeChange<T> {
  readonly result: T;
  /** "unchanged" does not touch the vault. */
  readonly outcome?: "unchanged" | undefined;
}

/** A path inside a vault as the user typed it: removes outer slashes and spaces; everything else must be valid. */
export function entryPath(typed: string, source: string): string {
  const path = withoutSlashes(typed);
  const fault = findPathFault(path);
  if (fault === undefined) return path;
  const message = `Cannot use "${printable(typed)}" as a path in a vault: ${fault}`;
  throw new UsageError("usage/vault.path", message, { source });
}

/** Makes directories, with those above them. */
export function makeDirectories(edit: VaultEdit, paths: readonly string[]): TreeChange<{ readonly created: number }> {
  let created = 0;
  for (const path of paths) created += edit.tree.makeDirectory(path, edit.now);
  return { result: { created }, outcome: created === 0 ? "unchanged" : undefined };
}

export interface Removal {
  readonly removed: number;
  /** Bytes that only the removed entries used. */
  readonly freedBytes: number;
}

/** Removes all of the entries, or none of them. */
export function removeEntries(
  edit: VaultEdit,
  paths: readonly string[],
  { depth, source }: { readonly depth: "recursive" | "empty"; readonly source: string },
): TreeChange<Removal> {
  const removed = edit.tree.remove(paths, depth);
  if (removed === 0) {
    throw new UsageError("usage/arguments", "Cannot remove nothing: must name an entry", { source });
  }
  return { result: { removed, freedBytes: edit.dropUnreferenced() } };
}

/** Where an entry goes: its path now, and what was typed for the new one. */
export interface Move {
  readonly from: string;
  /** With a slash at its end, it names the directory that the entry goes into. */
  readonly to: string;
  /** Names the caller in errors. */
  readonly source: string;
}

export interface Moved {
  readonly from: string;
  readonly to: string;
}

export function moveEntry(edit: VaultEdit, move: Move): TreeChange<Moved> {
  const { from, to } = resolveMove(edit, move);
  edit.tree.move(from, to, edit.now);
  return { result: { from, to }, outcome: from === to ? "unchanged" : undefined };
}

export function copyEntry(edit: VaultEdit, move: Move): TreeChange<Moved & { readonly copied: number }> {
  const { from, to } = resolveMove(edit, move);
  return { result: { from, to, copied: edit.tree.copy(from, to, edit.now) } };
}

/** Paths as users type them, before a vault is opened: what can never be one is refused first. */
export function checkMove({ from, to, source }: Move): void {
  entryPath(from, source);
  if (to !== "/") entryPath(to, source);
}

/** The destination as mv and cp of a shell understand it. */
function resolveMove(edit: VaultEdit, { from: typedFrom, to: typed, source }: Move): Moved {
  const from = entryPath(typedFrom, source);
  const to = typed === "/" ? "" : entryPath(typed, source);
  const name = from.slice(from.lastIndexOf("/") + 1);
  const isInto = typed.endsWith("/") || (to !== from && edit.tree.kindOf(to) === "directory");
  if (!isInto) return { from, to };
  return { from, to: to === "" ? name : `${to}/${name}` };
}
