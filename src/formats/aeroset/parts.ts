import { FormatError, IntegrityError, type Location, SourceError } from "../../base/errors.ts";
import { withoutDots } from "../../base/name-set.ts";
import { encodeHex, printable } from "../../base/text.ts";
import { LazySource } from "../../bytes/derived.ts";
import { parseHttpUrl } from "../../bytes/http/url.ts";
import { OPENING_BYTES, withHead } from "../../bytes/layers/opening-read.ts";
import { closedError } from "../../bytes/memory.ts";
import { checkRelativeName, type PinnedFile, type ResolveOptions, type Resolver } from "../../bytes/resolver.ts";
import type { Source } from "../../bytes/source.ts";
import type { OpenContext } from "../../model/format.ts";
import type { Part } from "../../model/model.ts";
import type { AeroModel } from "../aero/model.ts";
import { openAero } from "../aero/read.ts";
import { PartTensors } from "./part-tensors.ts";
import type { ParsedSetFile, SetEntry, SetPart } from "./set-file.ts";

/** What opening a file of the set needs. */
export interface SetContext extends OpenContext {
  readonly resolver: Resolver;
  readonly origin: SetOrigin;
  /** Locates a text in the JSON, for messages. */
  readonly locate: ParsedSetFile["locate"];
}

/** Opens a file that the JSON names; `path` is the JSON's key for it. */
export async function openEntry(
  entry: SetEntry,
  path: string,
  context: SetContext,
  prove?: PinnedFile["prove"],
): Promise<Source> {
  const at = context.locate(entry.path, `${path}.path`);
  const place = locateFile(entry.path, context.origin, at);
  const { sha256, sizeBytes } = entry;
  const pinned = sha256 === undefined || sizeBytes === undefined ? undefined : { byteLength: sizeBytes, sha256, prove };
  const options = { signal: context.signal, pinned };
  try {
    return await resolvePlace(place, at, context, options);
  } catch (error) {
    if (!(error instanceof SourceError) || error.code !== "source/not-found") throw error;
    const message = `Cannot open "${printable(labelOf(entry.path))}": the set names it, but it is not there`;
    throw new SourceError("source/not-found", message, at, {
      hint: "Put every file of the set beside its JSON; an interrupted download is the usual reason",
      cause: error,
    });
  }
}

async function resolvePlace(
  place: SetPlace,
  at: Location,
  context: SetContext,
  options: ResolveOptions,
): Promise<Source> {
  if (place.kind === "url") return resolveUrl(place.url, at, context, options);
  try {
    return await context.resolver.resolve(place.name, options);
  } catch (error) {
    const isMissing = error instanceof SourceError && error.code === "source/not-found";
    if (!isMissing || place.elsewhere === undefined) throw error;
    return resolveUrl(place.elsewhere, at, context, options);
  }
}

async function resolveUrl(
  url: string,
  at: Location,
  { resolver }: SetContext,
  options: ResolveOptions,
): Promise<Source> {
  if (resolver.resolveUrl !== undefined) return resolver.resolveUrl(url, options);
  const message = `Cannot open "${printable(labelOf(url))}": the set leads to an address that was not allowed`;
  throw new SourceError("source/resolver.origin", message, at, {
    hint: `Permit it with the option allowOrigin ${new URL(url).origin}`,
  });
}

/**
 * Fetches the beginning of a remote file once and serves it from memory, so that metadata and tensors there cost no
 * further request. Local files are read when needed.
 */
export async function withOpening(source: Source, byteLength: number, signal?: AbortSignal): Promise<Source> {
  if (source.descriptor !== undefined) return source;
  const fetched = Math.min(source.byteLength, byteLength);
  return fetched === 0 ? source : withHead(source, await source.read(0, fetched, { signal }));
}

/** A file of weights: listed by the JSON, opened when the first of its tensors is read. */
export class PartFile implements Part {
  readonly entry: SetPart;
  /** Index into `parts` of the JSON. */
  readonly number: number;
  readonly label: string;
  readonly #context: SetContext;
  /** Bytes of the tensors that it should hold: the file cannot be shorter. */
  readonly #leastBytes: number;
  #opening: Promise<AeroModel> | undefined;
  #opened: AeroModel | undefined;
  #tensors: PartTensors | undefined;
  #closed = false;
  #proving: Promise<void> | undefined;
  #layout: "unplaced" | undefined = "unplaced";

  constructor(entry: SetPart, number: number, leastBytes: number, context: SetContext) {
    this.entry = entry;
    this.number = number;
    this.label = labelOf(entry.path);
    this.#context = context;
    this.#leastBytes = leastBytes;
  }

  /** The real length once the file is open; before, the length in the JSON, or the bytes of its tensors. */
  get byteLength(): number {
    return this.#opened?.content.source.byteLength ?? this.entry.sizeBytes ?? this.#leastBytes;
  }

  get source(): Source {
    const opened = this.#opened?.content.source;
    if (opened !== undefined) return opened;
    const open = async (): Promise<Source> => (await this.open()).content.source;
    const { label, byteLength } = this;
    return new LazySource({ label, byteLength, open, opened: () => this.#opened?.content.source });
  }

  get layout(): "unplaced" | undefined {
    return this.#layout;
  }

  /** From now on the set's tensors have their places in this file. */
  markPlaced(): void {
    this.#layout = undefined;
  }

  /** Undefined until the file is open. */
  get model(): AeroModel | undefined {
    return this.#opened;
  }

  /** Finds tensors of the set in the file; undefined until it is open. */
  get tensors(): PartTensors | undefined {
    return this.#tensors;
  }

  /** True if reading all of it needs no network. */
  get isLocal(): boolean {
    return this.#opened?.content.source.descriptor !== undefined;
  }

  /** Compares the whole open file with the SHA-256 in the JSON, once; throws if it differs. */
  async prove(locate: ParsedSetFile["locate"], signal: AbortSignal | undefined): Promise<void> {
    const source = this.#opened?.content.source;
    if (source === undefined || this.entry.sha256 === undefined) return;
    this.#proving ??= this.#prove(source, locate, signal).catch((error: unknown) => {
      this.#proving = undefined;
      throw error;
    });
    await this.#proving;
  }

  /** Opens the file once, however often it is called; after a failure the next call tries again. */
  open(): Promise<AeroModel> {
    if (this.#closed) return Promise.reject(closedError(this.label));
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const model = await this.#opening?.catch(() => undefined); // readers of the part get its failure
    await model?.close();
  }

  async #prove(source: Source, locate: ParsedSetFile["locate"], signal: AbortSignal | undefined): Promise<void> {
    const { engine } = this.#context;
    const { byteLength } = source;
    const { wrongDigest } = await import("./verify.ts");
    const found = encodeHex(await engine.digestRange("sha256", source, { offset: 0, byteLength, signal }));
    if (found === this.entry.sha256) return;
    const entry = { ...this.entry, key: `parts[${this.number}]` };
    const { message, at, hint } = wrongDigest({ entry, source }, locate, found);
    throw new IntegrityError("integrity/aeroset.sha256", message, at, { hint });
  }

  async #open(): Promise<AeroModel> {
    // Readers share the opening, so no single signal ends it.
    const context = { ...this.#context, signal: undefined };
    const source = await openEntry(this.entry, `parts[${this.number}]`, context);
    try {
      const model = await openAero(await withOpening(source, OPENING_BYTES), context);
      this.#tensors = new PartTensors(this, model);
      this.#opened = model;
      return model;
    } catch (error) {
      await source.close();
      throw error;
    }
  }
}

/** Where a file of a set is. `elsewhere` is the address to use if there is no such sibling. */
type SetPlace =
  | { readonly kind: "sibling"; readonly name: string; readonly elsewhere?: string }
  | { readonly kind: "url"; readonly url: string };

/** What the places of a set's files depend on, besides their paths. */
export interface SetOrigin {
  /** "address" if the JSON itself came from a server or an object store. */
  readonly from: "folder" | "address";
  readonly baseUrl?: string | undefined;
}

/** RFC 3986 §3.1, with the colon; a drive letter looks the same and is refused too. */
const SCHEME = /^[a-z][a-z0-9+.-]*:/i;
const HTTP = /^https?:\/\//i;

/**
 * Where a path leads. A full http(s) address is used as it is. Else `base_url` is the folder (joined by RFC 3986, as
 * the reference does); if the JSON is in a local folder, an existing sibling takes precedence. Without `base_url` the
 * file is a sibling, and names that leave the folder are refused. Only http and https are followed.
 */
export function locateFile(path: string, origin: SetOrigin, at: Location): SetPlace {
  if (HTTP.test(path)) return { kind: "url", url: parseAddress(path, at).href };
  if (SCHEME.test(path)) throw schemeError(path, at);
  if (origin.baseUrl === undefined) return { kind: "sibling", name: siblingName(path, at) };
  const url = joinUrl(parseAddress(origin.baseUrl, { ...at, path: "base_url" }), path, at);
  const name = origin.from === "folder" ? safeName(path) : undefined;
  return name === undefined ? { kind: "url", url } : { kind: "sibling", name, elsewhere: url };
}

/** The name of a set's file in lists and messages: its path, without the secret parts of an address. */
export function labelOf(path: string): string {
  return HTTP.test(path) && URL.canParse(path) ? parseHttpUrl(path).label : path;
}

/** "./x" is "x"; the resolver's own rule refuses everything else that is not plainly in the folder. */
function siblingName(path: string, at: Location): string {
  const name = withoutDots(path);
  checkRelativeName(name, at);
  return name;
}

function safeName(path: string): string | undefined {
  try {
    return siblingName(path, { source: "set" });
  } catch (error) {
    if (error instanceof SourceError) return undefined;
    throw error;
  }
}

/**
 * The path below `base_url`, which is a folder with or without its final slash. Its query, which may hold signatures,
 * is kept for addresses of the same origin that have none; another host never gets it.
 */
function joinUrl(base: URL, path: string, at: Location): string {
  const folder = new URL(base);
  folder.search = "";
  folder.hash = "";
  if (!folder.pathname.endsWith("/")) folder.pathname += "/";
  if (!URL.canParse(path, folder.href)) throw addressError(at);
  const url = new URL(path, folder.href);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw schemeError(path, at);
  if (url.origin === base.origin && url.search === "") url.search = base.search;
  return url.href;
}

function parseAddress(text: string, at: Location): URL {
  if (!HTTP.test(text) || !URL.canParse(text)) throw addressError(at);
  return new URL(text);
}

/** The message does not repeat the text: it may hold a key. */
function addressError(at: Location): FormatError {
  const message = `Cannot follow ${at.path ?? "the path"} of the set: must be a whole http(s) address`;
  return new FormatError("format/aeroset.address", message, at);
}

function schemeError(path: string, at: Location): FormatError {
  const scheme = printable(SCHEME.exec(path)?.[0] ?? "");
  const message = `Cannot follow ${at.path ?? "the path"} of the set: must be a file name, http:// or https://, found "${scheme}"`;
  return new FormatError("format/aeroset.address", message, at, {
    hint: "A set may only name files beside it and web addresses",
  });
}
