import type { HttpTransport } from "./http-transport.ts";
import type { RangeStore } from "./range-store.ts";
import type { PinnedFile } from "./resolver.ts";
import type { RetryPolicy } from "./retry.ts";

/** How a file on a web server is opened and read. */
export interface HttpOptions {
  /** The global fetch where absent; Node has a better one (proxies, redirects under control). */
  readonly transport?: HttpTransport | undefined;
  /** Sent with every request to the URL's own origin, never to another. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Longest silence before a request counts as failed. */
  readonly timeoutMs?: number | undefined;
  /** Bytes that the opening request asks for; reads inside them cost nothing more. */
  readonly headBytes?: number | undefined;
  readonly retry?: Partial<RetryPolicy> | undefined;
  /** A file that the server will only send whole, or without saying how long it is, is kept up to this many bytes. */
  readonly maxMemoryBytes?: number | undefined;
  /** From a server without ranges, most bytes that one read may receive only to drop them. */
  readonly maxDiscardBytes?: number | undefined;
  /** What one request of a long stream asks for, where the server's work for each is dear; 4 MiB where absent. */
  readonly requestBytes?: number | undefined;
  /** Keeps what was read for the next opening. */
  readonly store?: RangeStore | undefined;
  /** What an index says about the file: it is then opened without a request. */
  readonly pinned?: PinnedFile | undefined;
  /** The address or path of that index. */
  readonly namedBy?: string | undefined;
  /** Hears of every address that a redirect leads to, and refuses it by throwing. */
  readonly onRedirect?: ((url: string) => void) | undefined;
  /** "offline" where no request may be made: then only the store answers. */
  readonly network?: "offline" | undefined;
}
