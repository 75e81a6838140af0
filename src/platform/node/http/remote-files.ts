import type { S3Options } from "../../../api/options.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { httpResolver, openHttp } from "../../../bytes/http/index.ts";
import type { HttpTransport } from "../../../bytes/http/transport.ts";
import { type AllowedOrigins, checkOrigin, parseHttpUrl, parseOrigin } from "../../../bytes/http/url.ts";
import { type LayeredStore, placeOfFile } from "../../../bytes/layers/store.ts";
import type { ResolveOptions, Resolver } from "../../../bytes/resolver.ts";
import { explainSignedUrls } from "../../../bytes/s3/errors.ts";
import type { Source } from "../../../bytes/source.ts";
import { openingBytesFor } from "../../../formats/registry.ts";
import { fullPath } from "../errors.ts";
import { makeOwnFolder } from "../files/own-folder.ts";
import type { Environment } from "./proxy-environment.ts";
import { type NodeTransport, nodeTransport } from "./transport.ts";

export interface HttpSettings {
  /** Sent only to the server of the target, never to another server that its files refer to. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly timeoutMs?: number | undefined;
  readonly retries?: number | undefined;
  /** Connections to one server at a time. */
  readonly connections?: number | undefined;
  /** Keeps bytes that were read for the next time, such as a DiskCache. */
  readonly store?: LayeredStore | undefined;
  /** "offline" if only the store may answer. */
  readonly network?: "offline" | undefined;
  /** Servers, by URL, that files may refer to besides their own; for a local file, the only ones. */
  readonly allowOrigins?: readonly string[] | undefined;
  /** Where to look up proxies and object stores: `process.env` if absent. */
  readonly environment?: Environment | undefined;
  /** The object store, as far as the caller names it; the environment says the rest. */
  readonly s3?: S3Options | undefined;
  /** Sends every request in place of tare's own client. */
  readonly transport?: HttpTransport | undefined;
}

export interface RemoteOptions {
  readonly http: HttpSettings;
  /** The target if it is a URL: its server gets the headers. */
  readonly url?: string | undefined;
  readonly maxMemoryBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onRequest: () => void;
}

/** The remote files of one target: one transport, one policy, and a list of the files that went through the store. */
export class RemoteFiles {
  readonly #options: RemoteOptions;
  readonly #transport: HttpTransport;
  readonly #connections: NodeTransport | undefined;
  readonly #origin: string | undefined;
  readonly #allowed: AllowedOrigins;
  readonly #places = new Set<string>();

  constructor(options: RemoteOptions) {
    this.#options = options;
    const { timeoutMs, connections, environment, transport, allowOrigins = [] } = options.http;
    this.#connections = transport === undefined ? nodeTransport({ environment, timeoutMs, connections }) : undefined;
    const inner = transport ?? (this.#connections as NodeTransport);
    this.#transport = explainSignedUrls({
      ...inner,
      request: (request) => {
        options.onRequest();
        return inner.request(request);
      },
    });
    this.#origin = options.url === undefined ? undefined : new URL(parseHttpUrl(options.url).url).origin;
    this.#allowed = new Set(allowOrigins.map(parseOrigin));
  }

  /** Opens an address that was checked already. */
  readonly open = (url: string, { pinned, namedBy, onRedirect, signal }: ResolveOptions = {}): Promise<Source> => {
    const { http, maxMemoryBytes } = this.#options;
    const { headers, timeoutMs, retries, store, network } = http;
    this.#places.add(placeOfFile(url, { pinned, namedBy }));
    return openHttp(url, {
      transport: this.#transport,
      headBytes: openingBytesFor(new URL(url).pathname),
      headers: new URL(url).origin === this.#origin ? headers : undefined,
      timeoutMs,
      store,
      network,
      pinned,
      namedBy,
      onRedirect,
      maxMemoryBytes,
      signal: signal ?? this.#options.signal,
      ...(retries === undefined ? {} : { retry: { retries } }),
    });
  };

  /** Resolves files that a file on a server refers to. */
  resolver(url: string): Resolver {
    return httpResolver(url, this.open, { allowedOrigins: this.#allowed });
  }

  /** Opens an address that a local file refers to. */
  async openFrom(label: string, url: string, options?: ResolveOptions): Promise<Source> {
    const onRedirect = (target: string): void => checkOrigin(target, { label, own: undefined, allowed: this.#allowed });
    onRedirect(url);
    const namedBy = label.startsWith("s3://") ? label : fullPath(label);
    return this.open(url, { ...options, namedBy, onRedirect });
  }

  /** Ends the connections. Files that are still open get new ones, which are not kept. */
  async close(): Promise<void> {
    await this.#connections?.close();
  }

  /** Drops what the store has of every opened file: its bytes proved wrong, and the source does not matter. */
  async distrust(): Promise<void> {
    for (const place of this.#places) await this.#options.http.store?.forget(place);
  }
}

/** Copies of remote bytes on disk, which exist as long as a container is open. */
export class SpooledCopies {
  readonly #folder: string | undefined;
  readonly #copies = new Set<Source>();

  /** `folder`: the system's folder for temporary files if absent. */
  constructor(folder: string | undefined) {
    this.#folder = folder;
  }

  readonly spool = async (
    pieces: AsyncIterable<Bytes>,
    { label, signal }: { readonly label: string; readonly signal?: AbortSignal | undefined },
  ): Promise<Source> => {
    const [{ spoolPieces }, { spooledSource }] = await Promise.all([
      import("../files/spool.ts"),
      import("../files/source.ts"),
    ]);
    // The system's own folder is often in memory, and a copy is meant to save memory.
    const made = this.#folder === undefined ? undefined : await makeOwnFolder(this.#folder);
    const copy = await spooledSource(await spoolPieces(pieces, label, { folder: made, signal }), label);
    this.#copies.add(copy);
    return copy;
  };

  async close(): Promise<void> {
    await Promise.all([...this.#copies].map((copy) => copy.close()));
    this.#copies.clear();
  }
}
