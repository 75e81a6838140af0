import { isTareError, type TareError, UsageError } from "../../src/base/errors.ts";
import type { HttpTransport } from "../../src/bytes/http/transport.ts";
import { type Meter, withMeter } from "../../src/bytes/layers/base.ts";
import type { ResolveOptions, Resolver } from "../../src/bytes/resolver.ts";
import type { Source } from "../../src/bytes/source.ts";
import { explain, openingBytesFor, sniffFormat } from "../../src/formats/registry.ts";
import { type Archive, archiveResolver } from "../../src/model/archive.ts";
import type { Format, Opened } from "../../src/model/format.ts";
import type { Model } from "../../src/model/model.ts";
import { type OpenOptions, openSource, requireModel } from "../../src/open.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { PassingEngine } from "../../src/primitives/passing-engine.ts";
import type { OpenReply, OpenRequest } from "../shared/protocol.ts";
import { inheritingScript } from "../shared/protocol.ts";
import { candidatesAmong, openChosen } from "./chosen-files.ts";
import { describeOpened, describeUnreadable } from "./overview.ts";
import type { CallContext } from "./serve-calls.ts";

/** Opened content, or at least a file that exists. */
export interface Target {
  readonly id: number;
  readonly label: string;
  /** The file that was opened. */
  readonly source: Source;
  /** Absent if the content could not be understood. */
  readonly opened: Opened | undefined;
  /** Why the content is incomplete, if the rest was opened all the same. */
  readonly fault?: TareError | undefined;
  readonly resolver: Resolver | undefined;
  readonly watch: Meter;
  /** "remote" if a read takes a request. */
  readonly place: "local" | "remote";
  /** Requests made so far. */
  requests(): number;
}

export interface OpenTargets {
  readonly engine: Engine;
  open(request: OpenRequest, context: CallContext<"open">): Promise<OpenReply>;
  get(id: number): Target;
  model(id: number): Model;
  archive(id: number): Archive;
  close(id: number): Promise<undefined>;
}

/** A file that was found, before its content is read. */
export interface Place {
  readonly source: Source;
  readonly resolver: Resolver | undefined;
  readonly name: string | undefined;
  readonly place: Target["place"];
  readonly requests: () => number;
}

/** Bytes that suffice to recognise a format that cannot be opened. */
const SNIFFED_BYTES = 4096;

async function recognise(source: Source, name: string): Promise<Format | undefined> {
  const { byteLength } = source;
  const bytes = await source.read(0, Math.min(SNIFFED_BYTES, byteLength)).catch(() => new Uint8Array(0));
  return sniffFormat({ bytes, byteLength, name });
}

/** Opens what is left of a file whose end is missing. */
async function openRest(source: Source, fault: TareError, options: OpenOptions): Promise<Opened | undefined> {
  const { openCutShort } = await import("../pages/cut-short.ts");
  return openCutShort(source, fault, options).catch(() => undefined);
}

export function openTargets(): OpenTargets {
  return new Targets();
}

class Targets implements OpenTargets {
  readonly engine = lazyEngine();
  readonly #targets = new Map<number, Target>();
  #next = 1;

  async open(request: OpenRequest, context: CallContext<"open">): Promise<OpenReply> {
    if (request.kind === "files") {
      const candidates = request.primary === undefined ? candidatesAmong(request.files) : [request.primary];
      if (candidates.length > 1) return { kind: "choose", candidates };
      if (candidates.length === 0) return { kind: "choose", candidates: request.files.map(({ path }) => path) };
    }
    const watch: Meter = { onRead: undefined, bytes: 0, reads: 0 };
    const place = await this.#find(request, watch, context.signal);
    return { kind: "opened", overview: await this.#openPlace(place, watch, context) };
  }

  async #find(request: OpenRequest, watch: Meter, signal: AbortSignal): Promise<Place> {
    if (request.kind === "url") return openUrl(request, watch, signal);
    if (request.kind === "entry") {
      const { place, requests } = this.get(request.target);
      const archive = this.archive(request.target);
      const entry = archive.entry(request.path);
      const resolver = archiveResolver(archive, entry.path);
      return { source: withMeter(entry.source(), watch), resolver, name: resolver.name, place, requests };
    }
    return openChosen(request, (source) => withMeter(source, watch));
  }

  async #openPlace(found: Place, watch: Meter, { signal, askPassword }: CallContext<"open">) {
    const { source, resolver, name, place, requests } = found;
    const id = this.#next++;
    const shared = { id, label: source.label, source, resolver, watch, place, requests };
    const options = { engine: this.engine, password: askPassword, resolver, name, signal };
    try {
      const opened = await openSource(source, options);
      const target: Target = { ...shared, opened };
      this.#targets.set(id, target);
      return describeOpened(target, opened);
    } catch (error) {
      // A missing or wrong secret is asked for again. Bytes that make no sense, or whose siblings are missing, can
      // still be viewed.
      if (!isTareError(error) || error.code.startsWith("usage/")) throw error;
      const rest = error.neededBytes === undefined ? undefined : await openRest(source, error, options);
      const target: Target = { ...shared, opened: rest, fault: rest === undefined ? undefined : error };
      this.#targets.set(id, target);
      if (rest !== undefined) return describeOpened(target, rest);
      return describeUnreadable(target, await recognise(source, name ?? ""), error.toJSON());
    }
  }

  get(id: number): Target {
    const target = this.#targets.get(id);
    if (target !== undefined) return target;
    throw new Error(`nothing is open under ${id}`);
  }

  model(id: number): Model {
    const { opened, label } = this.get(id);
    if (opened !== undefined) return requireModel(opened.container);
    throw new UsageError("usage/not-a-model", "Cannot read tensors: the content was not understood", { source: label });
  }

  archive(id: number): Archive {
    const { opened, label } = this.get(id);
    if (opened?.container.kind === "archive") return opened.container;
    throw new UsageError("usage/not-an-archive", "Cannot list files: this is no archive", { source: label });
  }

  async close(id: number): Promise<undefined> {
    const target = this.#targets.get(id);
    this.#targets.delete(id);
    await (target?.opened?.container ?? target?.source)?.close();
    return undefined;
  }
}

/** Opens an address for reading by ranges. Files that a model refers to are reached on the same server. */
export async function openUrl(
  request: Extract<OpenRequest, { readonly kind: "url" }>,
  watch: Meter,
  signal: AbortSignal,
): Promise<Place> {
  // Local files need none of this.
  const { fetchTransport, httpResolver, openHttp, parseOrigin } = await import("../../src/bytes/http/index.ts");
  const { noticingRedirects } = await import("../pages/redirects.ts");
  let requests = 0;
  const { conditions, request: send } = fetchTransport();
  const transport: HttpTransport = noticingRedirects({
    conditions,
    request: (exchange) => {
      requests++;
      return send(exchange);
    },
  });
  const open = async (url: string, { pinned }: ResolveOptions = {}): Promise<Source> => {
    const headBytes = openingBytesFor(new URL(url).pathname);
    return withMeter(await openHttp(url, { transport, headBytes, pinned, signal }), watch);
  };
  // The page of a file on the hub means the file.
  const isPage = request.url.includes("/blob/");
  const url = isPage ? (await explain()).hubFileAddress(request.url, {}) : request.url;
  const source = await open(url);
  const allowedOrigins = new Set((request.allowOrigins ?? []).map(parseOrigin));
  const resolver = httpResolver(url, open, { allowedOrigins });
  return { source, resolver, name: resolver.name, place: "remote", requests: () => requests };
}

/** From this size on, workers are worth their start. Opening a file hashes less. */
const MIN_POOLED_BYTES = 1 << 20;

/**
 * The engine with its own workers, loaded when something is hashed or decrypted. Most overviews need neither, and those
 * that hash an index need no workers for it.
 */
export function lazyEngine(): Engine {
  return new LazyEngine();
}

class LazyEngine extends PassingEngine {
  #small: Promise<Engine> | undefined;
  #pooled: Promise<Engine> | undefined;

  protected override inner(): Promise<Engine> {
    this.#small ??= loadPortable();
    return this.#pooled ?? this.#small;
  }

  override async digestRange(...args: Parameters<Engine["digestRange"]>): ReturnType<Engine["digestRange"]> {
    const [, , { byteLength }] = args;
    return (await this.#engineFor(byteLength)).digestRange(...args);
  }

  override async digestExtents(...args: Parameters<Engine["digestExtents"]>): ReturnType<Engine["digestExtents"]> {
    const [, , extents] = args;
    const total = extents.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return (await this.#engineFor(total)).digestExtents(...args);
  }

  override async digest(...args: Parameters<Engine["digest"]>): ReturnType<Engine["digest"]> {
    const [, bytes] = args;
    return (await this.#engineFor(bytes.byteLength)).digest(...args);
  }

  #engineFor(byteLength: number): Promise<Engine> {
    if (byteLength < MIN_POOLED_BYTES) return this.inner();
    this.#pooled ??= loadPooled();
    return this.#pooled;
  }
}

async function loadPortable(): Promise<Engine> {
  return (await import("../../src/primitives/portable.ts")).portableEngine();
}

async function loadPooled(): Promise<Engine> {
  const { webEngine } = await import("../../src/platform/web/engine.ts");
  // Next to this script, where the build puts it.
  return webEngine({ workerUrl: inheritingScript(new URL("./hasher.js", import.meta.url)) });
}
