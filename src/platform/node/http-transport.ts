import type { Dispatcher } from "undici";
import type { Bytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import {
  downgradeError,
  type HttpRequest,
  type HttpResponse,
  type HttpTransport,
  PORTABLE_HEADERS,
} from "../../bytes/http-transport.ts";
import { parseHttpUrl } from "../../bytes/http-url.ts";
import { transportError } from "./http-errors.ts";
import { isPrivateHost, type Lookup } from "./private-address.ts";
import { type Environment, findProxy } from "./proxy-environment.ts";

export interface NodeTransportOptions {
  /** Where proxies are looked up: `process.env` where absent. */
  readonly environment?: Environment | undefined;
  /** Connections to one server at a time. */
  readonly connections?: number | undefined;
  /** Longest wait for a connection, for the head of a reply, and between two pieces of a body. */
  readonly timeoutMs?: number | undefined;
  readonly maxRedirects?: number | undefined;
  /** Resolves names when a redirect is judged; the system's resolver where absent. */
  readonly lookup?: Lookup | undefined;
}

/** A transport with connections of its own; idle ones do not keep the process alive. */
export interface NodeTransport extends HttpTransport {
  close(): Promise<void>;
}

/** Long streams use six; this many pay for short reads that wait for the server more than for the line. */
const CONNECTIONS = 32;
const TIMEOUT_MS = 30_000;
const MAX_REDIRECTS = 10;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const DRAIN_BYTES = 64 << 10;
const DRAIN_MS = 1000;

/**
 * HTTP for Node, on undici, loaded at the first request. Proxies come from the environment. Redirects are
 * followed by hand: at another origin only headers that cannot be credentials are sent on, https never turns
 * into http, and a public server cannot lead into the private network.
 */
export function undiciTransport(options: NodeTransportOptions = {}): NodeTransport {
  const dispatchers = new Dispatchers(options);
  const maxRedirects = options.maxRedirects ?? MAX_REDIRECTS;
  return {
    conditions: "if-range",
    async request(request: HttpRequest): Promise<HttpResponse> {
      let hop: Hop = { url: new URL(request.url), headers: request.headers };
      const visited = new Set<string>();
      for (;;) {
        const response = await send(hop, request, dispatchers);
        const mayMove = request.body === undefined && REDIRECTS.has(response.statusCode);
        const location = mayMove ? response.headers["location"] : undefined;
        if (location === undefined) return adapt(response, hop.url.href);
        drain(response);
        visited.add(hop.url.href);
        hop = await nextHop(hop, String(location), options.lookup);
        if (visited.has(hop.url.href)) throw redirectError(hop.url, "the redirects go round in a circle");
        if (visited.size > maxRedirects) throw redirectError(hop.url, `there are more than ${maxRedirects}`);
      }
    },
    close: () => dispatchers.close(),
  };
}

/** One station of a chain of redirects. */
interface Hop {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

async function nextHop(from: Hop, location: string, lookup: Lookup | undefined): Promise<Hop> {
  if (!URL.canParse(location, from.url)) throw redirectError(from.url, "its target is no URL");
  const url = new URL(location, from.url);
  url.username = "";
  url.password = "";
  url.hash = "";
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw redirectError(from.url, `its target must be http or https, found "${url.protocol}"`);
  }
  if (from.url.protocol === "https:" && url.protocol === "http:") throw downgradeError(from.url.host);
  if (url.origin === from.url.origin) return { url, headers: from.headers };
  if ((await isPrivateHost(url.hostname, lookup)) && !(await isPrivateHost(from.url.hostname, lookup))) {
    throw redirectError(from.url, `it leads into a private network ("${url.hostname}")`);
  }
  const kept = Object.entries(from.headers).filter(([name]) => PORTABLE_HEADERS.has(name.toLowerCase()));
  return { url, headers: Object.fromEntries(kept) };
}

function redirectError(url: URL, reason: string): SourceError {
  const { label } = parseHttpUrl(url.href);
  return new SourceError("source/http.redirect", `Cannot follow a redirect of "${label}": ${reason}`, {
    source: label,
  });
}

/** The connections: one agent for direct ones, one for each proxy. */
class Dispatchers {
  readonly #environment: Environment;
  readonly #agentOptions;
  readonly #byProxy = new Map<string, Promise<Dispatcher>>();

  constructor(options: NodeTransportOptions) {
    const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#environment = options.environment ?? process.env;
    this.#agentOptions = {
      connections: options.connections ?? CONNECTIONS,
      connect: { timeout: timeoutMs },
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    };
  }

  for(url: URL): Promise<Dispatcher> {
    const proxy = findProxy(url, this.#environment)?.href ?? "";
    let dispatcher = this.#byProxy.get(proxy);
    if (dispatcher === undefined) {
      dispatcher = this.#make(proxy);
      this.#byProxy.set(proxy, dispatcher);
    }
    return dispatcher;
  }

  async close(): Promise<void> {
    const all = await Promise.all(this.#byProxy.values());
    this.#byProxy.clear();
    await Promise.all(all.map((dispatcher) => dispatcher.destroy()));
  }

  async #make(proxy: string): Promise<Dispatcher> {
    // Loading undici takes longer than everything else at start-up, and most runs read local files.
    const { Agent, ProxyAgent } = await import("./undici.ts");
    if (proxy === "") return new Agent(this.#agentOptions);
    // Plain http goes through the proxy as a request: many proxies allow tunnels only to port 443.
    return new ProxyAgent({ ...this.#agentOptions, uri: proxy, proxyTunnel: false });
  }
}

async function send(
  hop: Hop,
  { method, signal, body }: HttpRequest,
  all: Dispatchers,
): Promise<Dispatcher.ResponseData> {
  const dispatcher = await all.for(hop.url);
  const headers = { "user-agent": "tare", ...hop.headers };
  try {
    return await dispatcher.request({
      origin: hop.url.origin,
      path: hop.url.pathname + hop.url.search,
      method,
      headers,
      signal,
      body: body ?? null,
    });
  } catch (error) {
    signal.throwIfAborted();
    throw transportError(error, parseHttpUrl(hop.url.href).label);
  }
}

function adapt(response: Dispatcher.ResponseData, url: string): HttpResponse {
  const { body, headers, statusCode } = response;
  // Destroying a body nobody listens to would otherwise end the process.
  body.on("error", () => undefined);
  let isBeingRead = false;
  const read = async function* (): AsyncGenerator<Bytes> {
    isBeingRead = true;
    try {
      for await (const chunk of body as AsyncIterable<Buffer<ArrayBuffer>>) {
        yield new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      }
    } catch (error) {
      throw transportError(error, parseHttpUrl(url).label);
    }
  };
  return {
    status: statusCode,
    headers: {
      get: (name) => {
        const value = headers[name.toLowerCase()];
        return value === undefined ? null : String(value);
      },
    },
    url,
    body: read(),
    each: (take) => {
      isBeingRead = true;
      return new Promise((resolve, reject) => {
        body.on("data", (chunk: Buffer<ArrayBuffer>) => {
          try {
            take(chunk);
          } catch (error) {
            reject(error);
            body.destroy();
          }
        });
        body.on("end", resolve);
        body.on("error", (error) => reject(transportError(error, parseHttpUrl(url).label)));
        body.on("close", () => {
          if (!body.readableEnded) reject(transportError(new Error("closed early"), parseHttpUrl(url).label));
        });
      });
    },
    cancel: () => {
      if (isBeingRead) body.destroy();
      else drain(response);
    },
  };
}

/** A short body is received and dropped, so that its connection can serve again; a long or slow one is cut off. */
function drain({ body }: Dispatcher.ResponseData): void {
  const signal = AbortSignal.timeout(DRAIN_MS);
  body.dump({ limit: DRAIN_BYTES, signal }).catch(() => undefined); // nobody wants to know why it did not come
}
