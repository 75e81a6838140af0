import type { Bytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import type { HeaderReader } from "./headers.ts";
import { checkRequest } from "./url.ts";

export interface HttpRequest {
  readonly url: string;
  readonly method: HttpMethod;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** What PUT and POST send. Requests with a body are never redirected. */
  readonly body?: Bytes | undefined;
  /** "caller" where whoever sends the request watches over the reply's rate; a transport that does so too need not. */
  readonly rateWatch?: "caller" | undefined;
  /** Hears of every address that a redirect leads to, and refuses it by throwing. */
  readonly onRedirect?: ((url: string) => void) | undefined;
}

/** Reading needs the first two, object storage all of them. */
export type HttpMethod = "GET" | "HEAD" | "PUT" | "POST" | "DELETE";

export interface HttpResponse {
  readonly status: number;
  readonly headers: HeaderReader;
  /** Where the reply came from, after redirects. */
  readonly url: string;
  /** May be iterated once. A piece is valid until the next one is asked for. */
  readonly body: AsyncIterable<Bytes>;
  /** The body without a promise for each piece, in place of iterating it; rejects where it breaks or `take` throws. */
  each?(take: (piece: Bytes) => void): Promise<void>;
  /**
   * The next bytes of the body right into `into`, in place of iterating it; `onBytes` hears of them as they land. What
   * is left of the body waits for the next call, and meanwhile the connection is not read from. It may pass through the
   * memory of the last call on its way, so that has to be free by then.
   */
  fill?(into: Bytes, onBytes: (byteLength: number) => void): Promise<void>;
  /** Drops what is left of the body; harmless when there is nothing. */
  cancel(): void;
}

/**
 * How requests leave the machine. Redirects are followed inside: never from https to http, and never with a
 * caller's header to another origin. Failures that are not SourceErrors count as a broken connection.
 */
export interface HttpTransport {
  /** "if-range" where conditional range requests may be sent; in browsers they would cost a preflight. */
  readonly conditions: "if-range" | "none";
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Ends the connections that wait for further requests, and keeps none from now on. */
  close?(): Promise<void>;
}

/**
 * Headers that may follow a redirect to another origin: our own, and those that browsers take off or keep
 * within the rules of CORS themselves. Everything else could be a credential.
 */
export const PORTABLE_HEADERS: ReadonlySet<string> = new Set([
  "accept",
  "accept-encoding",
  "if-none-match",
  "if-range",
  "range",
  "user-agent",
]);

/**
 * The transport of browsers, on the global fetch. It can see where a redirect led only afterwards, so with any
 * header but Authorization, which fetch takes off at another origin by itself, it refuses redirects altogether.
 */
export function fetchTransport(): HttpTransport {
  return {
    conditions: "none",
    async request(request: HttpRequest): Promise<HttpResponse> {
      const { url, method, signal, body } = request;
      const { headers } = checkRequest(request);
      const held = Object.keys(headers).some((name) => !PORTABLE_HEADERS.has(name) && name !== "authorization");
      const redirect = held || body !== undefined ? "error" : "follow";
      // Caches that piece ranges together are one more place where two versions could mix.
      const response = await fetch(url, { method, headers, signal, redirect, cache: "no-store", body: body ?? null });
      const finalUrl = response.url === "" ? url : response.url;
      if (new URL(url).protocol === "https:" && new URL(finalUrl).protocol !== "https:") {
        await response.body?.cancel();
        throw downgradeError(new URL(url).host);
      }
      if (response.redirected) await approve(request, response, finalUrl);
      return adapt(response, finalUrl);
    },
  };
}

/** Only the last address of a chain is to be seen in a browser. */
async function approve({ onRedirect }: HttpRequest, response: Response, finalUrl: string): Promise<void> {
  try {
    onRedirect?.(finalUrl);
  } catch (error) {
    await response.body?.cancel();
    throw error;
  }
}

/** The error for a redirect that would leave encryption. */
export function downgradeError(host: string): SourceError {
  const message = "Cannot follow a redirect from https to http: what arrives could have been altered on the way";
  return new SourceError("source/http.redirect", message, { source: host }, { hint: "Ask whoever runs the server" });
}

function adapt(response: Response, url: string): HttpResponse {
  return {
    status: response.status,
    headers: response.headers,
    url,
    body: readBody(response.body),
    cancel: () => {
      // Fails where the body is being read: its reader then ends it.
      response.body?.cancel().catch(() => undefined);
    },
  };
}

/** ReadableStream has no async iterator in Safari. */
async function* readBody(body: ReadableStream<Bytes> | null): AsyncGenerator<Bytes> {
  if (body === null) return;
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
