import type { Archive, Entry } from "../../model/archive.ts";

/** An entry as listings show it in JSON. */
export interface ListedEntry {
  readonly path: string;
  readonly type: Entry["type"];
  readonly size: number;
  /** RFC 3339. */
  readonly modified?: string;
  readonly mode?: number;
}

export function listedEntries(entries: readonly Entry[]): ListedEntry[] {
  const timeOf = isoTimes();
  return entries.map(({ path, type, size, modified, mode }) => {
    const time = modified === undefined ? {} : { modified: timeOf(modified) };
    return { path, type, size, ...time, ...(mode === undefined ? {} : { mode }) };
  });
}

/** Files that were written together often have the same time, which is then formatted once. */
function isoTimes(): (modified: number) => string {
  let known: number | undefined;
  let text = "";
  return (modified) => {
    if (modified !== known) text = new Date(modified).toISOString();
    known = modified;
    return text;
  };
}

export interface EntryCounts {
  readonly entryCount: number;
  readonly fileCount: number;
  readonly directoryCount: number;
}

export function countEntries({ entries }: Pick<Archive, "entries">): EntryCounts {
  const fileCount = entries.filter(({ type }) => type === "file").length;
  return { entryCount: entries.length, fileCount, directoryCount: entries.length - fileCount };
}
