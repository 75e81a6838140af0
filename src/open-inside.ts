import { UsageError } from "./base/errors.ts";
import { withOwner } from "./bytes/layers/base.ts";
import { INNER_MARK, type Resolver } from "./bytes/resolver.ts";
import type { Source } from "./bytes/source.ts";
import { type Archive, archiveResolver, type Container, type Entry } from "./model/archive.ts";
import type { Opened, PasswordSource } from "./model/format.ts";
import { type OpenOptions, openSource } from "./open.ts";

/** Options of the outermost place do not concern what lies inside: its siblings are other entries. */
export type InsideOptions = Omit<OpenOptions, "resolver" | "name">;

export interface ThroughOptions extends OpenOptions {
  /**
   * Sees everything that is opened on the way, outermost first, before anything of it is used: throwing refuses it. `inner` are
   * the names that led to it.
   */
  readonly onOpened?: ((container: Container, inner: readonly string[]) => Promise<void>) | undefined;
}

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
  { onOpened, ...given }: ThroughOptions,
): Promise<OpenedThrough> {
  const { options, hasAsked } = withWatchedPassword(given);
  // Whatever is open last owns everything before it.
  let last: { close(): Promise<void> } = source;
  try {
    let opened = await openSource(source, options);
    last = opened.container;
    await onOpened?.(opened.container, []);
    let { resolver: siblings } = options;
    const { resolver: _resolver, name: _name, ...within } = options;
    for (let rest = inner; rest.length > 0; ) {
      const { container } = opened;
      if (container.kind !== "archive") throw notAnArchive(rest.join(INNER_MARK), opened);
      const { entry, taken } = findEntry(container, rest);
      const file = withOwner(entry.source(), container);
      last = file;
      const resolver = archiveResolver(container, entry.path);
      // What lies in an archive that the password opened was put there by somebody who knows it.
      const encryption = within.encryption === "expected" && hasAsked() ? undefined : within.encryption;
      opened = await openSource(file, { ...within, encryption, resolver, name: resolver.name });
      last = opened.container;
      siblings = resolver;
      rest = rest.slice(taken);
      await onOpened?.(opened.container, inner.slice(0, inner.length - rest.length));
    }
    return { ...opened, siblings };
  } catch (error) {
    await last.close();
    throw error;
  }
}

/** The same options, and whether the password was asked for. */
function withWatchedPassword(options: OpenOptions): { readonly options: OpenOptions; hasAsked(): boolean } {
  const { password } = options;
  let asked = false;
  if (password === undefined) return { options, hasAsked: () => asked };
  const watched: PasswordSource = (label) => {
    asked = true;
    return password(label);
  };
  return { options: { ...options, password: watched }, hasAsked: () => asked };
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
