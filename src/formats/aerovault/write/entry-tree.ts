import { UsageError } from "../../../base/errors.ts";
import { nearNames } from "../../../model/model.ts";
import { NO_EXTRA_KEYS } from "../manifest/field-reader.ts";
import type { ManifestEntry } from "../manifest/records.ts";
import { comparePaths, findPathExcess, findPathFault, parentOf } from "../paths.ts";

/** Whether a removal takes only empty directories, or also everything below. */
export type RemoveDepth = "empty" | "recursive";

/** A moment to go back to. One of the two is called, and the last savepoint ends first. */
export interface Savepoint {
  /** Drops what was changed since. */
  restore(): void;
  /** Keeps it. */
  keep(): void;
}

/**
 * The entries of a vault while they are edited. A directory exists if it has an entry, or if something is below it. A
 * method that throws leaves the tree as it was. Paths are canonical.
 */
export class EntryTree {
  readonly #entries = new Map<string, ManifestEntry>();
  /** How many entries are below each path, at any depth. */
  readonly #below = new Map<string, number>();
  /** What was at each path before it was changed, oldest first, as far back as the first open savepoint. */
  readonly #log: { readonly path: string; readonly before: ManifestEntry | undefined }[] = [];
  #savepoints = 0;
  /** Shown in errors. */
  readonly label: string;

  constructor(entries: readonly ManifestEntry[], label: string) {
    this.label = label;
    for (const entry of entries) this.#set(entry);
  }

  /** To try a change: it costs what the change costs, however many entries there are. */
  savepoint(): Savepoint {
    const start = this.#log.length;
    this.#savepoints++;
    const end = (): void => {
      if (--this.#savepoints === 0) this.#log.length = 0;
    };
    return {
      restore: () => {
        for (const { path, before } of this.#log.splice(start).reverse()) this.#write(path, before);
        end();
      },
      keep: end,
    };
  }

  get size(): number {
    return this.#entries.size;
  }

  get(path: string): ManifestEntry | undefined {
    return this.#entries.get(path);
  }

  /** "directory" also if only an entry below it implies it. */
  kindOf(path: string): "file" | "directory" | undefined {
    const entry = this.#entries.get(path);
    if (entry !== undefined && !entry.isDir) return "file";
    return entry !== undefined || this.#below.has(path) ? "directory" : undefined;
  }

  /** In the order of a written manifest. */
  sorted(): ManifestEntry[] {
    return [...this.#entries.values()].sort((a, b) => comparePaths(a.path, b.path));
  }

  /** Ids of all chunks that any entry refers to. */
  referenced(): Set<string> {
    const ids = new Set<string>();
    for (const { chunks } of this.#entries.values()) for (const id of chunks) ids.add(id);
    return ids;
  }

  /** Makes a directory and its parents; returns how many were missing. Refuses a file in the way. */
  makeDirectory(path: string, now: string): number {
    this.#checkPath(path);
    const missing = this.#missingAbove(path);
    const kind = this.kindOf(path);
    if (kind === "file") throw this.#inTheWay(path);
    if (!this.#entries.has(path)) missing.push(path);
    for (const directory of missing) this.#set(directoryEntry(directory, now));
    return missing.length;
  }

  /** Refuses a path where a file cannot be put. */
  checkFile(path: string): void {
    this.#checkPath(path);
    this.#missingAbove(path);
    if (this.kindOf(path) !== "directory") return;
    throw new UsageError("usage/vault.exists", `Cannot store "${path}": a directory has this name`, this.#at(path));
  }

  /** Adds or replaces a file or directory, with its parents; returns the file that it replaces, if any. */
  put(entry: ManifestEntry): ManifestEntry | undefined {
    const { path } = entry;
    if (!entry.isDir) this.checkFile(path);
    this.#checkPath(path);
    const missing = this.#missingAbove(path);
    const before = this.#entries.get(path);
    if (this.kindOf(path) === "file" && entry.isDir) throw this.#inTheWay(path);
    for (const directory of missing) this.#set(directoryEntry(directory, entry.modified));
    this.#set(entry);
    return before?.isDir === false ? before : undefined;
  }

  /** Moves an entry, with all below it, to another path; their times become `now`. The same path changes nothing. */
  move(from: string, to: string, now: string): void {
    const moved = this.#subtree(from);
    if (from === to) return;
    this.#checkDestination(from, to, moved);
    for (const { path } of moved) this.#delete(path);
    this.#place(moved, from, to, now);
  }

  /** Adds a second entry, with all below it, that shares the chunks of the first. */
  copy(from: string, to: string, now: string): number {
    const copied = this.#subtree(from);
    this.#checkDestination(from, to, copied);
    this.#place(copied, from, to, now);
    return copied.length;
  }

  /** Removes entries; returns how many. First refuses a missing entry, or a directory that is not empty. */
  remove(paths: readonly string[], depth: RemoveDepth): number {
    const gone = new Set<string>();
    for (const path of paths) {
      const subtree = this.#subtree(path);
      const hasMore = subtree.some((entry) => entry.path !== path);
      if (hasMore && depth !== "recursive") {
        throw new UsageError(
          "usage/vault.not-empty",
          `Cannot remove "${path}": it is a directory that is not empty`,
          this.#at(path),
          { hint: "Pass the option recursive to remove what is in it too" },
        );
      }
      for (const entry of subtree) gone.add(entry.path);
    }
    for (const path of gone) this.#delete(path);
    return gone.size;
  }

  /** The entry and all below it; throws if there is neither. */
  #subtree(path: string): ManifestEntry[] {
    if (this.kindOf(path) === undefined) throw this.#notFound(path);
    const own = this.#entries.get(path);
    const found = own === undefined ? [] : [own];
    if (!this.#below.has(path)) return found;
    const prefix = `${path}/`;
    for (const entry of this.#entries.values()) if (entry.path.startsWith(prefix)) found.push(entry);
    return found;
  }

  #checkDestination(from: string, to: string, entries: readonly ManifestEntry[]): void {
    this.#checkPath(to);
    for (const { path } of entries) this.#checkPath(to + path.slice(from.length));
    if (to === from || to.startsWith(`${from}/`)) {
      throw new UsageError("usage/vault.into-itself", `Cannot put "${from}" into itself at "${to}"`, this.#at(to));
    }
    if (this.kindOf(to) !== undefined) {
      throw new UsageError("usage/vault.exists", `Cannot write "${to}": it exists in the vault`, this.#at(to), {
        hint: "Remove it first, or choose another name",
      });
    }
    this.#missingAbove(to);
  }

  /** Makes parents after the moved entries have left their place: the destination may be below a sibling. */
  #place(entries: readonly ManifestEntry[], from: string, to: string, now: string): void {
    for (const directory of this.#missingAbove(to)) this.#set(directoryEntry(directory, now));
    for (const entry of entries) this.#set({ ...entry, path: to + entry.path.slice(from.length), modified: now });
  }

  /** Directories above a path that have no entry, the shallowest first; throws if one of them is a file. */
  #missingAbove(path: string): string[] {
    const missing: string[] = [];
    for (let parent = parentOf(path); parent !== undefined; parent = parentOf(parent)) {
      const entry = this.#entries.get(parent);
      if (entry?.isDir === true) break;
      if (entry !== undefined) throw this.#inTheWay(parent);
      missing.unshift(parent);
    }
    return missing;
  }

  #checkPath(path: string): void {
    const fault = findPathFault(path) ?? findPathExcess(path);
    if (fault === undefined) return;
    throw new UsageError("usage/vault.path", `Cannot use "${path}" as a path in a vault: ${fault}`, this.#at(path));
  }

  #set(entry: ManifestEntry): void {
    this.#change(entry.path, entry);
  }

  #delete(path: string): void {
    this.#change(path, undefined);
  }

  #change(path: string, entry: ManifestEntry | undefined): void {
    if (this.#savepoints > 0) this.#log.push({ path, before: this.#entries.get(path) });
    this.#write(path, entry);
  }

  #write(path: string, entry: ManifestEntry | undefined): void {
    const was = this.#entries.has(path);
    if (entry === undefined) this.#entries.delete(path);
    else this.#entries.set(path, entry);
    if (was !== (entry !== undefined)) this.#count(path, was ? -1 : 1);
  }

  #count(path: string, by: 1 | -1): void {
    for (let parent = parentOf(path); parent !== undefined; parent = parentOf(parent)) {
      const count = (this.#below.get(parent) ?? 0) + by;
      if (count === 0) this.#below.delete(parent);
      else this.#below.set(parent, count);
    }
  }

  #at(path: string): { readonly source: string; readonly path: string } {
    return { source: this.label, path };
  }

  #inTheWay(path: string): UsageError {
    const message = `Cannot use "${path}" as a directory: a file has this name`;
    return new UsageError("usage/vault.not-a-directory", message, this.#at(path));
  }

  #notFound(path: string): UsageError {
    const near = nearNames(path, this.#entries.keys());
    const hint = near.length === 0 ? undefined : `Did you mean ${near.map((name) => `"${name}"`).join(", ")}?`;
    return new UsageError("usage/entry-not-found", `Cannot find "${path}" in the vault`, this.#at(path), { hint });
  }
}

/** An empty directory, as the reference writes it (docs/formats/aerovault.md#writing). */
export function directoryEntry(path: string, now: string): ManifestEntry {
  return { path, size: 0, modified: now, isDir: true, chunks: [], extra: NO_EXTRA_KEYS };
}
