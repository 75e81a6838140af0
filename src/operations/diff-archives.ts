import { type Bytes, equalBytes } from "../base/bytes.ts";
import type { Archive, Entry } from "../model/archive.ts";

export interface EntryChange {
  readonly name: string;
  /** What differs: "type", "size", "data". */
  readonly what: readonly ("type" | "size" | "data")[];
  readonly a: EntryFacts;
  readonly b: EntryFacts;
}

export interface EntryFacts {
  readonly type: Entry["type"];
  readonly size: number;
}

export interface ArchiveDiffReport {
  /** By paths, types and contents; times and permissions do not count. */
  readonly equal: boolean;
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly EntryChange[];
  readonly unchanged: number;
}

export interface ArchiveDiffOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called with the bytes of `a` that were compared, or that needed no comparing. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** Compares two archives by path. Contents are read only where nothing cheaper proves that they are the same. */
export async function diffArchives(
  a: Archive,
  b: Archive,
  options: ArchiveDiffOptions = {},
): Promise<ArchiveDiffReport> {
  const inA = new Set(a.entries.map((entry) => entry.path));
  const inB = new Map(b.entries.map((entry) => [entry.path, entry]));
  const added = b.entries.filter(({ path }) => !inA.has(path)).map(({ path }) => path);
  const removed = a.entries.filter(({ path }) => !inB.has(path)).map(({ path }) => path);
  const changed: EntryChange[] = [];
  let unchanged = 0;
  for (const entry of a.entries) {
    const other = inB.get(entry.path);
    if (other === undefined) continue;
    const change = await compareEntries(entry, other, options);
    if (change === undefined) unchanged++;
    else changed.push(change);
  }
  const equal = added.length + removed.length + changed.length === 0;
  return { equal, added, removed, changed, unchanged };
}

async function compareEntries(a: Entry, b: Entry, options: ArchiveDiffOptions): Promise<EntryChange | undefined> {
  const factsOf = ({ type, size }: Entry): EntryFacts => ({ type, size });
  const change = (...what: EntryChange["what"]): EntryChange => ({ name: a.path, what, a: factsOf(a), b: factsOf(b) });
  if (a.type !== b.type) return change("type");
  if (a.type === "directory") return undefined;
  if (a.size !== b.size) return change("size", "data");
  if (a.sharesContent?.(b) === true) {
    options.onProgress?.(a.size);
    return undefined;
  }
  return (await sameBytes(a, b, options)) ? undefined : change("data");
}

/** Two streams in step, whatever pieces each of them comes in. */
async function sameBytes(a: Entry, b: Entry, { signal, onProgress }: ArchiveDiffOptions): Promise<boolean> {
  const other = b.source().stream(0, { signal })[Symbol.asyncIterator]();
  let rest: Bytes = new Uint8Array(0);
  try {
    for await (const piece of a.source().stream(0, { signal })) {
      for (let done = 0; done < piece.byteLength; ) {
        if (rest.byteLength === 0) {
          const next = await other.next();
          if (next.done === true) return false;
          rest = next.value;
        }
        const length = Math.min(rest.byteLength, piece.byteLength - done);
        if (!equalBytes(rest.subarray(0, length), piece.subarray(done, done + length))) return false;
        rest = rest.subarray(length);
        done += length;
      }
      onProgress?.(piece.byteLength);
    }
    return true;
  } finally {
    await other.return?.();
  }
}
