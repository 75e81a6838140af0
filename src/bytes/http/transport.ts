import type { Bytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import { untilAborted } from "../abort.ts";
import type { HeaderReader } from "./headers.ts";
import { checkRequest } from "./url.ts";

export interface HttpRequest {
  readonly url: string;
  readonly method: HttpMethod;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** The body of PUT and POST. Requests with a body are never redirected. */
  readonly body?: Bytes | undefined;
  /** "caller" if the sender of the request checks the rate of the reply; then the transport need not. */
  readonly rateWatch?: "caller" | undefined;
  /** Called with every address that a redirect leads to; throws to refuse it. */
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
  /** Drops the rest of the body; harmless if there is none. */
  cancel(): void;
}

/**
 * How requests leave the machine. Redirects are followed inside: never from https to http, and never with a
 * caller's header to another origin. Failures that are not SourceErrors count as a broken connection.
 */
export interface HttpTransport {
  /** "if-range" if conditional range requests may be sent; in browsers they would cost a preflight. */
  readonly conditions: "if-range" | "none";
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Ends the connections that wait for further requests, and keeps none from now on. */
  close?(): Promise<void>;
}

/**
 * Headers that may follow a redirect to another origin: our own, and those that browsers themselves remove or keep by
 * the rules of CORS. Any other header could be a credential.
 */
export const PORTABLE_HEADERS: ReadonlySet<string> = new Set([
  "accept",
  "accept-encoding",
  "if-none-match",
  "if-range",
  "range",
  "user-agent",
]);

const NO_RESPONSE = "Cannot use the option fetch: it must give a Response";

/**
 * The transport of browsers, on the global fetch. It sees where a redirect led only afterwards. So it refuses redirects
 * if a request has a header that could be a credential. Authorization is an exception: fetch itself removes it at
 * another origin.
 */
export function fetchTransport(send: typeof fetch = fetch): HttpTransport {
  return {
    conditions: "none",
    async request(request: HttpRequest): Promise<HttpResponse> {
      const { url, method, signal, body } = request;
      const { headers } = checkRequest(request);
      const held = Object.keys(headers).some((name) => !PORTABLE_HEADERS.has(name) && name !== "authorization");
      const redirect = held || body !== undefined ? "error" : "follow";
      // Caches that assemble ranges are one more place where two versions could mix.
      const sending = send(url, { method, headers, signal, redirect, cache: "no-store", body: body ?? null });
      // A fetch of the caller's own may ignore its signal, or give something else.
      const response = await untilAborted(Promise.resolve(sending), signal, (late) => late.body?.cancel());
      if (typeof response?.status !== "number")
        throw new SourceError("source/caller", NO_RESPONSE, { source: "fetch" });
      const finalUrl = response.url === "" ? url : response.url;
      if (new URL(url).protocol === "https:" && new URL(finalUrl).protocol !== "https:") {
        await response.body?.cancel();
        throw downgradeError(new URL(url).host);
      }
      if (response.redirected) await approve(request, response, finalUrl);
      return adapt(response, finalUrl, signal);
    },
  };
}

/** A browser shows only the last address of a chain. */
async function approve({ onRedirect }: HttpRequest, response: Response, finalUrl: string): Promise<void> {
  try {
    onRedirect?.(finalUrl);
  } catch (error) {
    await response.body?.cancel();
    throw error;
  }
}

/** The error for a redirect from https to http. */
export function downgradeError(host: string): SourceError {
  const message = "Cannot follow a redirect from https to http: what arrives could have been altered on the way";
  return new SourceError(
    "source/http.redirect",
    message,
    { source: host },
    { hint: "Ask the people who run the server" },
  );
}

function adapt(response: Response, url: string, signal: AbortSignal): HttpResponse {
  return {
    status: response.status,
    headers: response.headers,
    url,
    body: readBody(response.body, signal),
    cancel: () => {
      // Fails while the body is being read: its reader then ends it.
      response.body?.cancel().catch(() => undefined);
    },
  };
}

/** ReadableStream has no async iterator in Safari. */
async function* readBody(body: ReadableStream<Bytes> | null, signal: AbortSignal): AsyncGenerator<Bytes> {
  if (body === null) return;
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await untilAborted(reader.read(), signal);
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => undefined); // not waited for: its source may never answer
  }
}

/**
 * Bytes per second that all transfers of this process together must bring, or they count as dead. Any line that is used
 * to load a model is faster. The value is usual for such bounds (git and package managers recommend 1000).
 */
export const LEAST_RATE = 1024;

/** The longest silence of a server before a request counts as failed, unless the caller chooses another. */
export const TIMEOUT_MS = 30_000;
