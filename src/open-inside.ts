import { type ErrorCatalog, UsageError } from "./base/errors.ts";
import { INNER_MARK } from "./bytes/inner-path.ts";
import { withOwner } from "./bytes/owning.ts";
import type { Resolver } from "./bytes/resolver.ts";
import type { Source } from "./bytes/source.ts";
import type { Archive, Entry } from "./model/archive.ts";
import { archiveResolver } from "./model/archive-resolver.ts";
import type { Opened } from "./model/format.ts";
import { type OpenOptions, openSource } from "./open.ts";

/** Options of the outermost place do not concern what lies inside: its siblings are other entries. */
export type InsideOptions = Omit<OpenOptions, "resolver" | "name">;

/** What was opened last, and what reaches the files beside it: entries of the same archive, for a file inside one. */
export interface OpenedThrough extends Opened {
  readonly siblings: Resolver | undefined;
}

/**
 * Opens `source` and then, one inside the other, what `inner` names: files of archives, the last of which may be a model or
 * an archive again. Closing the result closes everything down to `source`; so does a failure.
 */
export async function openThrough(
  source: Source,
  inner: readonly string[],
  options: OpenOptions,
): Promise<OpenedThrough> {
  // Whatever is open last owns everything before it.
  let last: { close(): Promise<void> } = source;
  try {
    let opened = await openSource(source, options);
    let { resolver: siblings } = options;
    const { resolver: _resolver, name: _name, ...within } = options;
    for (let rest = inner; rest.length > 0; ) {
      const { container } = opened;
      last = container;
      if (container.kind !== "archive") throw notAnArchive(rest.join(INNER_MARK), opened);
      const { entry, taken } = findEntry(container, rest);
      const file = withOwner(entry.source(), container);
      last = file;
      const resolver = archiveResolver(container, entry.path);
      opened = await openSource(file, { ...within, resolver, name: resolver.name });
      siblings = resolver;
      rest = rest.slice(taken);
    }
    return { ...opened, siblings };
  } catch (error) {
    await last.close();
    throw error;
  }
}

interface FoundEntry {
  readonly entry: Entry;
  /** How many of the names it took. */
  readonly taken: number;
}

/** An entry whose path itself has `::` in it wins over a place inside one of a shorter path. */
function findEntry(archive: Archive, names: readonly string[]): FoundEntry {
  for (let taken = names.length; taken > 1; taken--) {
    const path = names.slice(0, taken).join(INNER_MARK);
    const entry = archive.entries.find((candidate) => candidate.path === path);
    if (entry !== undefined) return { entry, taken };
  }
  return { entry: archive.entry(names[0] as string), taken: 1 };
}

function notAnArchive(path: string, current: Opened): UsageError {
  const message = `Cannot look for "${path}" inside: this is a ${current.format.name} model, not an archive`;
  return new UsageError("usage/not-an-archive", message, {
    source: current.container.parts[0]?.label ?? current.format.id,
  });
}

export const INSIDE_ERRORS = {
  "usage/not-an-archive": {
    what: "A path behind `::` was given, or a vault is needed, but the file is a model, not an archive.",
    why: "`::` names a file inside a vault, and only vaults have entries.",
    fix: "Leave out everything from `::` on, or name the vault.",
  },
} as const satisfies ErrorCatalog;
