/// <reference lib="esnext.disposable" preserve="true" />

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { basename } from "node:path";
import { type Request, requestOf } from "../../../api/host.ts";
import { type Input, openInput } from "../../../api/inputs.ts";
import { sourceOf } from "../../../api/object-inputs.ts";
import { COMMON_RULES, type CommonOptions, integerRule, type OptionRules, switchRule } from "../../../api/options.ts";
import { isTareError, UsageError } from "../../../base/errors.ts";
import { withReason } from "../../../bytes/abort.ts";
import { isDirectoryHandle } from "../../../bytes/handles/handle.ts";
import type { Resolver } from "../../../bytes/resolver.ts";
import type { Source } from "../../../bytes/source.ts";
import { VAULT_MAGIC } from "../../../formats/aerovault/layout.ts";
import type { Container } from "../../../model/archive.ts";
import { openSource } from "../../../open.ts";
import { type NodeHost, nodeHost } from "../host.ts";
import { checkPath } from "../paths.ts";
import { type OpenTargetOptions, openTarget, openTargetPlace, type TargetPlace } from "../targets.ts";
import { judgeRange } from "./file-reply.ts";
import { closeOnce, disposable } from "./index.ts";
import { encodePath } from "./paths.ts";
import { type Handler, type ListenOptions, type RunningServer, startServer } from "./start-server.ts";
import { viewerPage, viewerReply } from "./viewer-files.ts";

/** Options of `view`: the command's flags. */
export interface ViewOptions extends CommonOptions {
  /** A free one if absent, or 0. */
  readonly port?: number | undefined;
  /** Closes the server before it is given out: to see whether the input can be shown. */
  readonly dryRun?: boolean | undefined;
}

/** The viewer with one input in it. Its JSON is what `tare view --json` prints. */
export interface ViewServer {
  /** The link for a browser on this machine; it cannot be guessed. */
  readonly url: string;
  readonly port: number;
  /** The input as it was named. */
  readonly target: string;
  readonly dryRun: boolean;
  /** Takes no more requests, gives replies a second to finish, then ends them. May be called twice. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const RULES: OptionRules = { ...COMMON_RULES, port: integerRule(0, 65_535), dryRun: switchRule };

/** Shows one input in the viewer, on this machine alone, under a path that cannot be guessed, until it is closed. */
export function view(input: Input, options?: ViewOptions): Promise<ViewServer> {
  return viewOn(nodeHost(), input, options);
}

export async function viewOn(host: NodeHost, input: Input, options: ViewOptions = {}): Promise<ViewServer> {
  const request = await requestOf(host, "view", options, RULES);
  const { port = 0, signal, dryRun = false } = options;
  const shown = await withReason(signal, () => findShown(host, input, request));
  const { place, target } = shown;
  try {
    const server = await serveTarget(place, { port, siblings: await siblingsOf(place) });
    const closing = closeOnce(async () => {
      await server.close();
      await shown.close();
    }, signal);
    if (dryRun) await closing();
    return disposable({ url: server.link, port: server.port, target, dryRun }, closing);
  } catch (error) {
    await shown.close();
    throw error;
  }
}

/** What is shown. */
interface Shown {
  readonly place: TargetPlace;
  readonly target: string;
  /** Closes what was opened for it. */
  close(): Promise<void>;
}

type ViewRequest = Request<ViewOptions>;

async function findShown(host: NodeHost, input: Input, request: ViewRequest): Promise<Shown> {
  if (typeof input === "string" || input instanceof URL)
    return findNamed(host, checkPath("view", "input", input), request);
  if (typeof input !== "object" || input === null) {
    throw new UsageError("usage/input", "Cannot view: the input is none of the kinds that can be read", {
      source: "view",
    });
  }
  if (isContainer(input)) return shownContainer(input, async () => undefined);
  if (isDirectoryHandle(input)) {
    const opened = await openInput(host, input, request);
    return shownContainer(opened.container, () => opened.close());
  }
  const source = await sourceOf(input, request);
  const place = { source, name: basename(source.label), inner: [] };
  return { place, target: source.label, close: () => source.close() };
}

async function findNamed(host: NodeHost, target: string, request: ViewRequest): Promise<Shown> {
  const opening = await host.opening(target, request);
  try {
    const place = await openTargetPlace(target, opening.options);
    const close = async (): Promise<void> => {
      await place.source.close();
      await opening.close();
    };
    try {
      await judgeUnopened(target, place, opening.options);
      return { place, target, close };
    } catch (error) {
      await place.source.close();
      throw error;
    }
  } catch (error) {
    await opening.close();
    throw error;
  }
}

/**
 * The page that opens it later knows neither a password that was given here nor earlier states of the vault. So a vault
 * without encryption is checked now. Opening reports everything else.
 */
async function judgeUnopened(target: string, { source }: TargetPlace, options: OpenTargetOptions): Promise<void> {
  if (target === "-" || source.byteLength < VAULT_MAGIC.length) return;
  const magic = await source.read(0, VAULT_MAGIC.length);
  if (String.fromCharCode(...magic) !== VAULT_MAGIC) return;
  try {
    await (await openTarget(target, { ...options, password: undefined })).close();
  } catch (error) {
    // A bug, or an abort, is not something that opening would report.
    if (!isTareError(error) || /^usage\/vault\./.test(error.code)) throw error;
  }
}

function isContainer(input: object): input is Container {
  return "kind" in input && "parts" in input && "close" in input;
}

/** The files of an opened container, which stay open. */
function shownContainer({ parts, format }: Container, close: () => Promise<void>): Shown {
  const [first] = parts;
  if (first === undefined) {
    const message = "Cannot view: the model has no file, because it was made of arrays";
    throw new UsageError("usage/input", message, { source: "view" }, { hint: "Write it with convert, and view that" });
  }
  const files = new Map(parts.map(({ label, source }) => [basename(label), keptOpen(source)]));
  const name = basename(first.label);
  const resolve: Resolver["resolve"] = async (wanted) => {
    const found = files.get(wanted);
    if (found !== undefined) return found;
    throw new UsageError("usage/input", `Cannot view: the ${format} model has no file "${wanted}"`, { source: name });
  };
  const place = { source: keptOpen(first.source), name, resolver: { name, resolve }, inner: [] };
  return { place, target: first.label, close };
}

/** Files beside a model that an embedder looks for. No other file of a folder is served. */
const SIDECARS: ReadonlySet<string> = new Set([
  "config.json",
  "modules.json",
  "sentence_bert_config.json",
  "1_Pooling/config.json",
  "tokenizer_config.json",
  "tokenizer.json",
  "vocab.txt",
]);

/** No other page may read or embed the served files, and no request tells others this address. */
const HEADERS = {
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

interface TargetServer extends RunningServer {
  /** The viewer with the target in it. */
  readonly link: string;
}

/**
 * Serves the viewer and one target's files on loopback, under a path that cannot be guessed: other programs on this
 * machine, and pages in the same browser, can reach the port.
 */
async function serveTarget(
  place: TargetPlace,
  options: Omit<ListenOptions, "host"> & { readonly siblings: ReadonlySet<string> },
): Promise<TargetServer> {
  const token = randomBytes(16).toString("hex");
  const name = place.name ?? place.resolver?.name ?? "target";
  const handler = new TargetHandler({ place, token, name, siblings: options.siblings });
  const server = await startServer(handler, options);
  const fields = [`url=files${encodePath(name.split("/"), "file")}`];
  for (const path of place.inner) fields.push(`inside=${encodeURIComponent(path)}`);
  const close = async (graceMs?: number): Promise<void> => {
    await server.close(graceMs);
    await handler.close();
  };
  return { ...server, close, link: `${server.url}/${token}/#${fields.join("&")}` };
}

/** Names of the model's files other than the opened one; empty if the model cannot be opened. */
async function siblingsOf(place: TargetPlace): Promise<ReadonlySet<string>> {
  const { source, resolver } = place;
  if (resolver === undefined) return new Set();
  const names = new Set<string>();
  const recording: Resolver = {
    ...resolver,
    async resolve(name, options) {
      const found = await resolver.resolve(name, options);
      names.add(name);
      return found;
    },
  };
  try {
    const { container } = await openSource(keptOpen(source), { resolver: recording, name: place.name });
    if (container.kind === "model") await container.openParts?.();
    await container.close();
  } catch (error) {
    // The page reports the problem, and asks for a password if one is needed.
    if (!isTareError(error)) throw error;
  }
  return names;
}

/** Ignores close(): the target is served after siblingsOf() has looked at it. */
function keptOpen(source: Source): Source {
  return {
    label: source.label,
    byteLength: source.byteLength,
    read: (offset, byteLength, options) => source.read(offset, byteLength, options),
    stream: (offset, options) => source.stream(offset, options),
    close: async () => undefined,
  };
}

interface TargetFacts {
  readonly place: TargetPlace;
  readonly token: string;
  readonly name: string;
  readonly siblings: ReadonlySet<string>;
}

class TargetHandler implements Handler {
  readonly #facts: TargetFacts;
  readonly #opened = new Map<string, Promise<Source>>();

  constructor(facts: TargetFacts) {
    this.#facts = facts;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = ""] = (request.url ?? "").split(/[?#]/, 1);
    const prefix = `/${this.#facts.token}/`;
    const isReading = request.method === "GET" || request.method === "HEAD";
    if (!isReading || !path.startsWith(prefix)) return refuse(response);
    const rest = path.slice(prefix.length);
    if (rest.startsWith("files/")) return this.#sendFile(decode(rest.slice("files/".length)), request, response);
    const reply = rest === "" ? await viewerPage("alone") : await viewerReply(rest);
    if (reply === undefined || !(reply.body instanceof Uint8Array)) return refuse(response);
    const length = { "content-length": String(reply.body.byteLength) };
    response.writeHead(reply.status, { ...reply.headers, ...HEADERS, ...length });
    response.end(request.method === "HEAD" ? undefined : reply.body);
  }

  async #sendFile(name: string | undefined, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { place, siblings, token } = this.#facts;
    const isKnown = name !== undefined && (name === this.#facts.name || siblings.has(name) || SIDECARS.has(name));
    if (!isKnown) return refuse(response);
    const opening = this.#opened.get(name) ?? this.#open(name, place);
    this.#opened.set(name, opening);
    const source = await opening.catch(() => undefined);
    if (source === undefined) return refuse(response);
    const headers = { ...HEADERS, "content-type": "application/octet-stream" };
    await sendSource(request, response, { source, tag: `${token}-${source.byteLength}`, headers });
  }

  /** Closes the files beside the target; the target itself is the caller's. */
  async close(): Promise<void> {
    const opened = [...this.#opened].filter(([name]) => name !== this.#facts.name);
    await Promise.allSettled(opened.map(async ([, opening]) => (await opening).close()));
  }

  #open(name: string, { source, resolver }: TargetPlace): Promise<Source> {
    if (name === this.#facts.name) return Promise.resolve(source);
    return resolver === undefined ? Promise.reject(new Error("no siblings")) : resolver.resolve(name);
  }
}

function decode(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined; // not percent-encoded UTF-8, so not one of our names
  }
}

function refuse(response: ServerResponse): void {
  response.writeHead(404, { ...HEADERS, "content-length": "0" }).end();
}

/**
 * Sends a Source, or the single range that the request asks for. A request for several ranges gets the whole, as RFC
 * 9110 §14.2 allows. `tag` identifies this exact content: sources do not change.
 */
async function sendSource(
  request: IncomingMessage,
  response: ServerResponse,
  { source, tag, headers }: { readonly source: Source; readonly tag: string; readonly headers: OutgoingHttpHeaders },
): Promise<void> {
  const { byteLength } = source;
  const common = { ...headers, "accept-ranges": "bytes", etag: `"${tag}"`, "cache-control": "no-store" };
  const asked = request.method === "GET" ? request.headers.range : undefined;
  const verdict = asked === undefined ? { kind: "whole" as const } : judgeRange(asked, byteLength);
  if (verdict.kind === "unsatisfiable") {
    response.writeHead(416, { ...common, "content-range": `bytes */${byteLength}`, "content-length": "0" }).end();
    return;
  }
  const [range] = verdict.kind === "ranges" && verdict.ranges.length === 1 ? verdict.ranges : [];
  const first = range?.first ?? 0;
  const length = range === undefined ? byteLength : range.last - range.first + 1;
  const described = range === undefined ? {} : { "content-range": `bytes ${first}-${range.last}/${byteLength}` };
  response.writeHead(range === undefined ? 200 : 206, { ...common, ...described, "content-length": String(length) });
  if (request.method === "HEAD" || length === 0) {
    response.end();
    return;
  }
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  for await (const piece of source.stream(first, { byteLength: length, signal: gone.signal })) {
    // The piece is only lent until the next one, but the socket may keep its buffer for longer, so copy it.
    if (!response.write(Buffer.from(piece))) await once(response, "drain", { signal: gone.signal });
  }
  response.end();
}
