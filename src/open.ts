import type { Bytes } from "./base/bytes.ts";
import { FormatError, UnsupportedError, UsageError } from "./base/errors.ts";
import type { LimitOverrides } from "./base/limits.ts";
import { blobSource } from "./bytes/blob.ts";
import { type HttpOptions, httpResolver, openHttp } from "./bytes/http/index.ts";
import { parseOrigin } from "./bytes/http/url.ts";
import { withOwner } from "./bytes/layers/base.ts";
import { withHead } from "./bytes/layers/prefix.ts";
import { isMemory, memorySource } from "./bytes/memory.ts";
import { INNER_MARK, type ResolveOptions, type Resolver, splitInnerPaths } from "./bytes/resolver.ts";
import type { Spool } from "./bytes/sink.ts";
import type { Source } from "./bytes/source.ts";
import { describeUnknown, recogniseForeign } from "./formats/foreign.ts";
import { FORMATS, openingBytesFor } from "./formats/registry.ts";
import { type Archive, archiveResolver, type Container, type Entry } from "./model/archive.ts";
import type { Finding } from "./model/finding.ts";
import type { EncryptionRule, Format, Head, OpenContext, Opened, PasswordSource } from "./model/format.ts";
import type { Model } from "./model/model.ts";
import type { Engine } from "./primitives/engine.ts";
/** What can be opened everywhere: an http(s) address, one of a vault with `::path/inside` behind it, a File or Blob, bytes, or any Source. */
export type Input = string | URL | Blob | ArrayBuffer | Bytes | Source;

export interface OpenInputOptions extends OpenOptions {
  readonly http?: OpenHttpOptions | undefined;
}

export interface OpenHttpOptions extends Omit<HttpOptions, "signal" | "pinned"> {
  /** Servers, by URL, that files may refer to beside their own. */
  readonly allowOrigins?: readonly string[] | undefined;
}

/** Opens a model or an archive; only its control region is read. Close the result when done. */
export async function open(input: Input, options: OpenInputOptions = {}): Promise<Container> {
  const { container } = await openWithSiblings(input, options);
  return container;
}

/** The same with what reaches the files beside it, for those who need more than the file itself. */
export async function openWithSiblings(input: Input, options: OpenInputOptions = {}): Promise<OpenedThrough> {
  const { source, resolver, inner = [] } = await sourceOf(input, options);
  return openThrough(source, inner, { resolver, ...options });
}

/** Like `open`, for callers that want tensors: an archive is refused. */
export async function openModel(input: Input, options: OpenInputOptions = {}): Promise<Model> {
  return requireModel(await open(input, options));
}

/** Where the bytes of an input are, what reaches its siblings, and which paths inside of it are meant. */
async function sourceOf(
  input: Input,
  options: OpenInputOptions,
): Promise<{ readonly source: Source; readonly resolver?: Resolver; readonly inner?: readonly string[] }> {
  if (typeof input === "string" || input instanceof URL) {
    const [url = "", ...inner] = splitInnerPaths(String(input));
    if (!/^https?:\/\//i.test(url)) {
      throw new UsageError(
        "usage/not-a-url",
        `Cannot open "${url}": without a file system only http(s) addresses are text`,
        {
          source: url,
        },
        { hint: 'Paths open with: import { open } from "tare/node"' },
      );
    }
    const { allowOrigins = [], headers, ...http } = options.http ?? {};
    const { origin } = new URL(url);
    const address = (href: string, { pinned, namedBy, onRedirect }: ResolveOptions = {}): Promise<Source> => {
      // What may be a credential stays with the server that it was meant for.
      const own = new URL(href).origin === origin ? headers : undefined;
      const headBytes = openingBytesFor(new URL(href).pathname);
      return openHttp(href, { headBytes, ...http, headers: own, pinned, namedBy, onRedirect, signal: options.signal });
    };
    const allowedOrigins = new Set(allowOrigins.map(parseOrigin));
    return { source: await address(url), resolver: httpResolver(url, address, { allowedOrigins }), inner };
  }
  if (input instanceof Blob) return { source: blobSource(input) };
  if (input instanceof ArrayBuffer) return { source: memorySource(new Uint8Array(input)) };
  return { source: input instanceof Uint8Array ? memorySource(input) : input };
}

interface ThroughOptions extends OpenOptions {
  /**
   * Sees everything that is opened on the way, outermost first, before anything of it is used: throwing refuses it. `inner` are
   * the names that led to it.
   */
  readonly onOpened?: ((container: Container, inner: readonly string[]) => Promise<void>) | undefined;
}

/** What was opened last, and what reaches the files beside it: entries of the same archive, for a file inside one. */
interface OpenedThrough extends Opened {
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

export interface OpenOptions {
  readonly engine?: Engine | undefined;
  readonly limits?: LimitOverrides | undefined;
  /** Reaches the other files of a multi-file model; without it a single file opens alone. */
  readonly resolver?: Resolver | undefined;
  /** Takes what is too long to be checked in memory: see OpenContext. */
  readonly spool?: Spool | undefined;
  /** Asked when encrypted bytes are read for the first time. */
  readonly password?: PasswordSource | undefined;
  /** What to do about a vault without encryption: see EncryptionRule. */
  readonly encryption?: EncryptionRule | undefined;
  readonly signal?: AbortSignal | undefined;
  /** File name without folder; taken from the resolver or the label where absent. */
  readonly name?: string | undefined;
  /** Formats to consider; all of them where absent. */
  readonly formats?: readonly Format[] | undefined;
}

/** Sniffs the content, picks the format and opens it. Weights are not touched. */
export async function openSource(source: Source, options: OpenOptions = {}): Promise<Opened> {
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
  const byteLength = Math.min(openingBytesFor(name), source.byteLength);
  const bytes = await source.read(0, byteLength, { signal: options.signal });
  const head: Head = { bytes, byteLength: source.byteLength, name };
  const format = await chooseFormat(head, options.formats ?? FORMATS, source.label);
  const reader = await format.read();
  const context: OpenContext = {
    // Loaded only for those who bring none: pages and commands have engines of their own.
    engine: options.engine ?? (await import("./primitives/portable.ts")).portableEngine(),
    limits: options.limits ?? {},
    resolver: options.resolver,
    spool: options.spool,
    password: options.password,
    encryption: options.encryption,
    signal: options.signal,
  };
  // Bytes in memory cost no second read, and a tensor across the end of the head stays a view.
  const container = await reader.open(isMemory(source) ? source : withHead(source, bytes), context);
  return { container, format, reader, notes: extensionNotes(head, format, source.label) };
}

/** The container as a model; an archive is refused. */
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

/** Content decides; the extension only lets a damaged file be refused by the reader it was meant for. */
async function chooseFormat(head: Head, formats: readonly Format[], label: string): Promise<Format> {
  const results = await Promise.all(formats.map(async (format) => ({ format, result: await format.sniff(head) })));
  const sure = results.find(({ result }) => result === "yes");
  if (sure !== undefined) return sure.format;
  const foreign = recogniseForeign(head);
  if (foreign !== undefined) {
    const { code, what, hint } = foreign;
    throw new UnsupportedError(code, `Cannot open: this is ${what}`, { source: label, offset: 0 }, { hint });
  }
  const meant = results.find(({ format, result }) => result === "possible" && hasExtension(head.name, format));
  if (meant !== undefined) return meant.format;
  throw new UnsupportedError(
    "unsupported/unknown",
    describeUnknown(head),
    { source: label, offset: 0 },
    {
      hint: `tare reads ${formats.map((format) => format.name).join(", ")}`,
    },
  );
}

function hasExtension(name: string, format: Format): boolean {
  const lower = name.toLowerCase();
  return format.extensions.some((extension) => lower.endsWith(extension));
}

function extensionNotes(head: Head, format: Format, label: string): Finding[] {
  const claimed = FORMATS.find((other) => other.id !== format.id && hasExtension(head.name, other));
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
