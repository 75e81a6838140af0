import type { EntryRow } from "../pages/vault-entries.ts";

/** An entry in its place in the tree. */
export interface TreeRow {
  readonly entry: EntryRow;
  readonly depth: number;
  /** Without its folder; with a filter the whole path. */
  readonly name: string;
}

interface TreeOptions {
  readonly filter: string;
  readonly closed: ReadonlySet<string>;
}

/** Entries as a tree, folders before their contents; a filter turns it into a list of matches. */
export function treeRows(entries: readonly EntryRow[], { filter, closed }: TreeOptions): readonly TreeRow[] {
  const text = filter.trim().toLowerCase();
  if (text !== "") {
    const found = entries.filter(({ path }) => path.toLowerCase().includes(text));
    return found.map((entry) => ({ entry, depth: 0, name: entry.path }));
  }
  const collator = new Intl.Collator("en", { numeric: true });
  const sorted = withFolders(entries)
    .map((entry) => ({ entry, parts: entry.path.split("/") }))
    .sort((a, b) => {
      for (let i = 0; i < Math.min(a.parts.length, b.parts.length); i++) {
        const order = collator.compare(a.parts[i] ?? "", b.parts[i] ?? "");
        if (order !== 0) return order;
      }
      return a.parts.length - b.parts.length;
    });
  return sorted
    .filter(({ parts }) => parts.every((_, i) => i === 0 || !closed.has(parts.slice(0, i).join("/"))))
    .map(({ entry, parts }) => ({ entry, depth: parts.length - 1, name: parts.at(-1) ?? entry.path }));
}

/** Archives need not list the folders of their files. */
function withFolders(entries: readonly EntryRow[]): readonly EntryRow[] {
  const known = new Set(entries.map(({ path }) => path));
  const missing = new Set<string>();
  for (const { path } of entries) {
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      if (!known.has(path.slice(0, end))) missing.add(path.slice(0, end));
    }
  }
  return [...entries, ...[...missing].map((path) => ({ path, type: "directory" as const, size: 0 }))];
}
