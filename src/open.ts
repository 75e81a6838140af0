import type { Source } from "./bytes/source.ts";
import {
  entryOf,
  type OpenedThrough,
  type OpenWithOptions,
  openSourceWith,
  openThroughWith,
  rememberOpened,
} from "./formats/open.ts";
import { explain, FORMATS } from "./formats/registry.ts";
import { type Archive, archiveResolver, type Container } from "./model/archive.ts";
import type { Format, Opened } from "./model/format.ts";
import type { Engine } from "./primitives/engine.ts";

export { keepLive, openedOf, rememberOpened, requireModel } from "./formats/open.ts";

/** Opening with every format that there is, unless the caller names some. */

export interface OpenOptions extends Omit<OpenWithOptions, "engine" | "formats"> {
  readonly engine?: Engine | undefined;
  /** Formats to consider; all of them if absent. */
  readonly formats?: readonly Format[] | undefined;
}

interface ThroughOptions extends OpenOptions {
  /**
   * Called with every container that is opened on the way, outermost first, before it is used. Throwing refuses it.
   * `inner` are the names that led to it.
   */
  readonly onOpened?: ((container: Container, inner: readonly string[]) => Promise<void>) | undefined;
}

/** Sniffs the content, picks the format and opens it. Reads no weights. */
export async function openSource(source: Source, options: OpenOptions = {}): Promise<Opened> {
  return openSourceWith(source, await complete(options));
}

/**
 * Opens `source` and then, one inside the other, what `inner` names: files of archives, the last of which may be a
 * model or an archive again. Closing the result closes everything down to `source`; so does a failure.
 */
export async function openThrough(
  source: Source,
  inner: readonly string[],
  options: ThroughOptions,
): Promise<OpenedThrough> {
  return openThroughWith(source, inner, await complete(options));
}

/**
 * Opens a file of an archive that stays open: its reads go through the archive's entries, and closing the result leaves
 * the archive alone.
 */
export async function openInside(
  archive: Archive,
  path: string,
  options: OpenOptions & Pick<Opened, "carrier">,
): Promise<OpenedThrough> {
  return openInsideWith(archive, path, await complete(options));
}

async function complete<O extends OpenOptions>(options: O): Promise<O & OpenWithOptions> {
  // Load it only if the caller passes none: pages and commands have their own engines.
  const engine = options.engine ?? (await import("./primitives/portable.ts")).portableEngine();
  return { ...options, engine, formats: options.formats ?? FORMATS, explain };
}

/**
 * Opens a file of an archive that stays open: its reads go through the archive's entries, and closing the result leaves
 * the archive alone.
 */
export async function openInsideWith(
  archive: Archive,
  path: string,
  { carrier, ...options }: OpenWithOptions & Pick<Opened, "carrier">,
): Promise<OpenedThrough> {
  const entry = await entryOf(archive, path, options);
  const file = entry.source();
  const stored = new Set([entry]);
  const siblings = archiveResolver(archive, entry.path, (sibling) => stored.add(sibling));
  try {
    const within = { ...options, resolver: siblings, name: siblings.name };
    const through = { ...(await openSourceWith(file, within)), stored, siblings, carrier };
    rememberOpened(through.container, through);
    return through;
  } catch (error) {
    await file.close();
    throw error;
  }
}
