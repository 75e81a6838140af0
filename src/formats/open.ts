import { FormatError, UnsupportedError, UsageError } from "../base/errors.ts";
import type { LimitOverrides } from "../base/limits.ts";
import { withOwner } from "../bytes/layers/base.ts";
import { withHead } from "../bytes/layers/opening-read.ts";
import { isMemory } from "../bytes/memory.ts";
import { INNER_MARK, type Resolver } from "../bytes/resolver.ts";
import type { Spool } from "../bytes/sink.ts";
import type { Source } from "../bytes/source.ts";
import { type Archive, archiveResolver, type Container, type Entry } from "../model/archive.ts";
import type { Finding } from "../model/finding.ts";
import type { EncryptionRule, Format, Head, OpenContext, Opened, PasswordSource } from "../model/format.ts";
import type { Model } from "../model/model.ts";
import type { Engine } from "../primitives/engine.ts";
import type * as explaining from "./explain.ts";
import { hasExtension, openingBytesAmong, sniffFormats } from "./recognise.ts";

/** Opening with formats that the caller names: nothing here reaches a format that is not among them. */

export interface OpenWithOptions {
  readonly engine: Engine;
  /** Formats to consider. */
  readonly formats: readonly Format[];
  readonly limits?: LimitOverrides | undefined;
  /** Opens the other files of a multi-file model. Without it a file opens alone. */
  readonly resolver?: Resolver | undefined;
  /** Stores data that is too long to check in memory: see OpenContext. */
  readonly spool?: Spool | undefined;
  /** Asked when encrypted bytes are read for the first time. */
  readonly password?: PasswordSource | undefined;
  /** What to do about a vault without encryption: see EncryptionRule. */
  readonly encryption?: EncryptionRule | undefined;
  /** What to do about a model whose end is missing: see OpenContext. */
  readonly cutShort?: "shown" | undefined;
  /** Names what no format can open. Without it, such files are only refused. */
  readonly explain?: (() => Promise<Explainer>) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** File name without folder; taken from the resolver or the label if absent. */
  readonly name?: string | undefined;
}

/** What is known of what cannot be opened as it is. Little gets there, and the signatures of all kinds of files are long. */
export type Explainer = Pick<
  typeof explaining,
  "checkLimits" | "describeUnknown" | "describeUnopened" | "explainDamage" | "hubFileAddress" | "modelEntry"
>;

interface ThroughWithOptions extends OpenWithOptions {
  /**
   * Called with every container that is opened on the way, outermost first, before it is used. Throwing refuses it.
   * `inner` are the names that led to it.
   */
  readonly onOpened?: ((container: Container, inner: readonly string[]) => Promise<void>) | undefined;
}

/** The last opened container, and the resolver of the files beside it: for a file in an archive, its other entries. */
export interface OpenedThrough extends Opened {
  readonly siblings: Resolver | undefined;
}

/**
 * Opens `source` and then, one inside the other, what `inner` names: files of archives, the last of which may be a
 * model or an archive again. Closing the result closes everything down to `source`; so does a failure.
 */
export async function openThroughWith(
  source: Source,
  inner: readonly string[],
  { onOpened, ...given }: ThroughWithOptions,
): Promise<OpenedThrough> {
  const { options, hasAsked } = withWatchedPassword(given);
  // The last opened container owns everything before it.
  let last: { close(): Promise<void> } = source;
  try {
    let opened = await openSourceWith(source, options);
    last = opened.container;
    await onOpened?.(opened.container, []);
    let { resolver: siblings } = options;
    let carrier: Opened["carrier"];
    const { resolver: _resolver, name: _name, ...within } = options;
    for (let rest = inner; rest.length > 0; ) {
      const { container } = opened;
      if (container.kind !== "archive") throw notAnArchive(rest.join(INNER_MARK), opened);
      const { entry, taken } = await findEntry(container, rest, options);
      if (container.authentication !== undefined) carrier = "authenticated";
      const file = withOwner(entry.source(), container);
      last = file;
      const stored = new Set([entry]);
      const resolver = archiveResolver(container, entry.path, (sibling) => stored.add(sibling));
      // The password opened the archive, so everything in it was written by someone who knows the password.
      const encryption = within.encryption === "expected" && hasAsked() ? undefined : within.encryption;
      opened = { ...(await openSourceWith(file, { ...within, encryption, resolver, name: resolver.name })), stored };
      last = opened.container;
      siblings = resolver;
      rest = rest.slice(taken);
      await onOpened?.(opened.container, inner.slice(0, inner.length - rest.length));
    }
    const through = { ...opened, siblings, carrier };
    rememberOpened(opened.container, through);
    return through;
  } catch (error) {
    await last.close();
    throw error;
  }
}

/** A container that was opened earlier; a vault that changes holds the state that is read until it is released. */
export interface OpenedBefore extends OpenedThrough {
  release?(): void;
}

/** How each container was opened, for callers that give one to another verb. */
const OPENED = new WeakMap<Container, OpenedThrough>();
/** The same for those whose state can change. */
const LIVE = new WeakMap<Container, () => OpenedBefore>();

/** What opening this container found; undefined if it was not opened here. */
export function openedOf(container: Container): OpenedBefore | undefined {
  return OPENED.get(container) ?? LIVE.get(container)?.();
}

/** From now on, `openedOf` asks for the state of this container. */
export function keepLive(container: Container, opened: () => OpenedBefore): void {
  LIVE.set(container, opened);
}

/** Says how a container came to be, so that verbs take it. */
export function rememberOpened(container: Container, opened: OpenedThrough): void {
  OPENED.set(container, opened);
}

/** The same options, and a function that tells whether the password was asked for. */
function withWatchedPassword(options: OpenWithOptions): { readonly options: OpenWithOptions; hasAsked(): boolean } {
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

/** An entry whose path contains `::` wins over a path inside an entry with a shorter name. */
async function findEntry(archive: Archive, names: readonly string[], options: OpenWithOptions): Promise<FoundEntry> {
  for (let taken = names.length; taken > 1; taken--) {
    const path = names.slice(0, taken).join(INNER_MARK);
    const entry = archive.entries.find((candidate) => candidate.path === path);
    if (entry !== undefined) return { entry, taken };
  }
  return { entry: await entryOf(archive, names[0] ?? "", options), taken: 1 };
}

/** The entry of a path. A directory means the one model in it, where that can be looked for. */
export async function entryOf(archive: Archive, path: string, { formats, explain }: OpenWithOptions): Promise<Entry> {
  const entry = archive.entries.find((candidate) => candidate.path === path && candidate.type === "file");
  if (entry !== undefined) return entry;
  return (await explain?.())?.modelEntry(archive, path, formats) ?? archive.entry(path);
}

function notAnArchive(path: string, current: Opened): UsageError {
  const message = `Cannot look for "${path}" inside: this is a ${current.format.name} model, not an archive`;
  return new UsageError("usage/not-an-archive", message, {
    source: current.container.parts[0]?.label ?? current.format.id,
  });
}

/** Sniffs the content, picks the format and opens it. Reads no weights. */
export async function openSourceWith(source: Source, options: OpenWithOptions): Promise<Opened> {
  const at = { source: source.label };
  if (source.byteLength === 0) {
    throw new FormatError(
      "format/empty",
      "Cannot open: the file is empty (0 bytes)",
      { ...at, offset: 0 },
      {
        hint: "The download or copy did not finish; get the file again",
      },
    );
  }
  const name = options.name ?? options.resolver?.name ?? baseName(source.label);
  const byteLength = Math.min(openingBytesAmong(name, options.formats), source.byteLength);
  const bytes = await source.read(0, byteLength, { signal: options.signal });
  const head: Head = { bytes, byteLength: source.byteLength, name };
  const format = await chooseFormat(head, options, source.label);
  const reader = await format.read();
  const context: OpenContext = {
    engine: options.engine,
    limits: options.limits ?? {},
    resolver: options.resolver,
    spool: options.spool,
    password: options.password,
    encryption: options.encryption,
    cutShort: options.cutShort,
    signal: options.signal,
  };
  // Bytes in memory need no cached head: reads cost nothing, and a tensor across the end of the head stays a view.
  const opening = reader.open(isMemory(source) ? source : withHead(source, bytes), context);
  const container = await opening.catch(async (error: unknown) => {
    const explainer = await options.explain?.();
    throw explainer === undefined ? error : explainer.explainDamage(error, head, source.label);
  });
  return {
    container,
    format,
    reader,
    notes: extensionNotes(head, format, { formats: options.formats, label: source.label }),
  };
}

/** The container as a model. Refuses an archive. */
export function requireModel(container: Container): Model {
  if (container.kind === "model") return container;
  const label = container.parts[0]?.label ?? container.format;
  throw new UsageError(
    "usage/not-a-model",
    "Cannot read tensors: this is an archive of files, not a model",
    { source: label },
    {
      hint: "Name a file inside it: ARCHIVE::path/to/model",
    },
  );
}

/** The content decides. The extension only serves damaged files, so that the right reader refuses them. */
async function chooseFormat(head: Head, options: OpenWithOptions, label: string): Promise<Format> {
  const { formats, explain } = options;
  const { sure, possible } = await sniffFormats(head, formats);
  if (sure !== undefined) return sure;
  const explainer = await explain?.();
  const named = explainer?.describeUnopened(head, label);
  if (named !== undefined) throw named;
  const meant = possible.find((format) => hasExtension(head.name, format));
  if (meant !== undefined) return meant;
  const at = { source: label, offset: 0 };
  throw (
    explainer?.describeUnknown(head, formats, at) ??
    new UnsupportedError("unsupported/unknown", "Cannot recognise the content", at)
  );
}

function extensionNotes(
  head: Head,
  format: Format,
  { formats, label }: { readonly formats: readonly Format[]; readonly label: string },
): Finding[] {
  const claimed = formats.find((other) => other.id !== format.id && hasExtension(head.name, other));
  if (claimed === undefined || hasExtension(head.name, format)) return [];
  const message = `Named like ${claimed.name}, but the content is ${format.name}`;
  return [{ severity: "note", code: "format/extension", message, at: { source: label } }];
}

function baseName(label: string): string {
  return (
    label
      .replace(/[?#].*$/, "")
      .split(/[\\/]/)
      .at(-1) ?? label
  );
}
