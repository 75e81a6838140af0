import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { isTareError } from "../../../base/errors.ts";
import type { Resolver } from "../../../bytes/resolver.ts";
import type { Source } from "../../../bytes/source.ts";
import { openSource } from "../../../open.ts";
import type { TargetPlace } from "../open-target.ts";
import { encodePath } from "./request-path.ts";
import { sendSource } from "./source-reply.ts";
import { type Handler, type ListenOptions, type RunningServer, startServer } from "./start-server.ts";
import { viewerPage, viewerReply } from "./viewer-files.ts";

/** Files beside a model that an embedder looks for. Nothing else of a folder is handed out. */
const SIDECARS: ReadonlySet<string> = new Set([
  "config.json",
  "modules.json",
  "sentence_bert_config.json",
  "1_Pooling/config.json",
  "tokenizer_config.json",
  "tokenizer.json",
  "vocab.txt",
]);

/** No other page may read or embed what is served here, and nothing tells where it is. */
const HEADERS = {
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

export interface TargetServer extends RunningServer {
  /** The viewer with the target in it. */
  readonly link: string;
}

/**
 * The viewer and one target's files, on loopback, under a path that nobody can guess: other programs of this machine, and
 * pages in the same browser, can reach the port.
 */
export async function serveTarget(
  place: TargetPlace,
  options: Omit<ListenOptions, "host"> & { readonly siblings: ReadonlySet<string> },
): Promise<TargetServer> {
  const token = randomBytes(16).toString("hex");
  const name = place.name ?? place.resolver?.name ?? "target";
  const handler = new TargetHandler({ place, token, name, siblings: options.siblings });
  const server = await startServer(handler, options);
  const fields = [`url=files${encodePath(name.split("/"), "file")}`];
  for (const path of place.inner) fields.push(`inside=${encodeURIComponent(path)}`);
  return { ...server, link: `${server.url}/${token}/#${fields.join("&")}` };
}

/** Names of the files that a model consists of beside the one it is opened by; none where it cannot be opened. */
export async function siblingsOf(place: TargetPlace): Promise<ReadonlySet<string>> {
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
    // The page says what is wrong with it, and asks for a password where one is needed.
    if (!isTareError(error)) throw error;
  }
  return names;
}

/** The target is served after this look at it. */
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

  #open(name: string, { source, resolver }: TargetPlace): Promise<Source> {
    if (name === this.#facts.name) return Promise.resolve(source);
    return resolver === undefined ? Promise.reject(new Error("no siblings")) : resolver.resolve(name);
  }
}

function decode(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined; // not percent-encoded UTF-8: no name of ours
  }
}

function refuse(response: ServerResponse): void {
  response.writeHead(404, { ...HEADERS, "content-length": "0" }).end();
}
