import { SourceError, UsageError } from "../../base/errors.ts";
import { type HttpTarget, startExchange } from "../../bytes/http/exchange.ts";
import { formatRange, readValidators, strongTag, type Validators } from "../../bytes/http/headers.ts";
import { openHttp } from "../../bytes/http/index.ts";
import { SequentialHttpSource } from "../../bytes/http/sequential.ts";
import { RangedHttpSource } from "../../bytes/http/source.ts";
import type { HttpTransport } from "../../bytes/http/transport.ts";
import { checkHeaders, parseHttpUrl } from "../../bytes/http/url.ts";
import { OPENING_BYTES } from "../../bytes/layers/opening-read.ts";
import type { RetryPolicy } from "../../bytes/layers/retry.ts";
import { redirectedTo } from "../../bytes/layers/store.ts";
import type { Source } from "../../bytes/source.ts";

/** How requests to one server are made. */
interface PullServer {
  readonly transport: HttpTransport;
  /** For this server only. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A file on a server, not yet requested. */
export interface RemoteAddress extends PullServer {
  readonly url: string;
  /** Throws if a redirect target is not allowed. */
  readonly onRedirect?: HttpTarget["onRedirect"];
}

/** The options that all requests of a pull share. */
export interface RemoteOptions {
  readonly timeoutMs: number;
  readonly policy: RetryPolicy;
  readonly signal: AbortSignal;
}

/** A file whose length a server has stated. */
export interface OpenedRemote {
  readonly source: Source;
  readonly validators: Validators;
  /** Address to which redirects led, if any: the validators are that server's. */
  readonly via: string | undefined;
  /** "sequential" if the server sends the whole file for every request. */
  readonly access: "ranges" | "sequential";
  /** The same source, if reading it needs no further request. */
  readonly held: Source | undefined;
}

const NO_VALIDATORS: Validators = { etag: undefined, lastModified: undefined };
/** Most memory for a server that does not state the length of a file, or sends all of it; eight at once stay small. */
const MAX_MEMORY_BYTES = 4 << 20;
/** Weight of the newest measurement in a server's rate. */
const SMOOTHING = 0.3;

/** Opens with one request, and keeps the validators of the reply. */
export async function openRemote(address: RemoteAddress, options: RemoteOptions): Promise<OpenedRemote> {
  let validators = NO_VALIDATORS;
  let access: OpenedRemote["access"] = "ranges";
  let via: string | undefined;
  const noticing: HttpTransport = {
    conditions: address.transport.conditions,
    async request(request) {
      const response = await address.transport.request(request);
      if (response.status === 200 || response.status === 206) {
        validators = readValidators(response.headers);
        via = redirectedTo(request.url, response.url);
        access = response.status === 200 ? "sequential" : "ranges";
      }
      return response;
    },
  };
  const { policy, signal, timeoutMs } = options;
  const source = await openHttp(address.url, {
    transport: noticing,
    headers: address.headers,
    onRedirect: address.onRedirect,
    timeoutMs,
    signal,
    retry: policy,
    headBytes: OPENING_BYTES,
    maxMemoryBytes: MAX_MEMORY_BYTES,
  });
  const isHeld = source.byteLength <= (access === "ranges" ? OPENING_BYTES : MAX_MEMORY_BYTES);
  return { source, validators, via, access, held: isHeld ? source : undefined };
}

/**
 * Asks whether the file on the server still has this tag. "unknown" if the server does not say, or if redirects lead to
 * another server than before, because the same tag may mean another file there.
 */
export async function askUnchanged(
  address: RemoteAddress,
  { etag, via }: { readonly etag: string; readonly via?: string | undefined },
  options: RemoteOptions,
): Promise<"unchanged" | "unknown"> {
  const headers = { "if-none-match": etag, range: formatRange(0, 1) };
  const target = targetOf(address, options);
  const exchange = await startExchange(target, { headers, signals: [options.signal] });
  exchange.cancel();
  const { status, headers: found, url } = exchange.response;
  if (redirectedTo(target.url, url) !== via) return "unknown";
  // A server that ignores the condition still shows the tag.
  const isSame = status === 304 || (status < 300 && strongTag(readValidators(found)) === etag);
  return isSame ? "unchanged" : "unknown";
}

/** One server's copy of one file: its source, its speed, and whether to use it. */
export class Remote {
  readonly label: string;
  readonly source: Source;
  readonly access: OpenedRemote["access"];
  /** Active leases. */
  active = 0;
  /** Bytes per second of one connection; undefined before the first measurement. */
  rate: number | undefined;
  /** The failure after which it is not used any more. */
  dead: unknown;
  /** Not to be used before this time, in milliseconds. */
  retryAt = 0;
  #streak = 0;

  constructor(address: RemoteAddress, facts: RemoteFacts, options: RemoteOptions) {
    const target = targetOf(address, options);
    this.label = target.label;
    this.access = facts.access;
    const known = {
      byteLength: facts.byteLength,
      validators: facts.validators ?? NO_VALIDATORS,
      contentRange: "shown" as const,
      // A mirror that was not opened shows its version with its first reply, and must keep it.
      ...(facts.validators === undefined ? { known: "pinned" as const } : {}),
    };
    this.source =
      facts.held ??
      (facts.access === "ranges"
        ? new RangedHttpSource(target, known)
        : new SequentialHttpSource(target, known, { maxDiscardBytes: Number.MAX_SAFE_INTEGER }));
  }

  measured(bytesPerSecond: number): void {
    this.rate = this.rate === undefined ? bytesPerSecond : this.rate + SMOOTHING * (bytesPerSecond - this.rate);
  }

  succeeded(): void {
    this.#streak = 0;
  }

  /** Backs off, or gives up the server. Failures while it is already backing off count as the same one. */
  failed(error: unknown, now: number, policy: RetryPolicy): void {
    const isTransient = error instanceof SourceError && error.transient;
    if (isTransient && now < this.retryAt) return;
    if (!isTransient || this.#streak >= policy.retries) {
      this.dead = error;
      return;
    }
    const doubled = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** this.#streak);
    const asked = error.retryAfter === undefined ? undefined : Math.min(error.retryAfter * 1000, policy.maxDelayMs);
    this.retryAt = now + (asked ?? doubled * (0.5 + policy.random() / 2));
    this.#streak++;
  }
}

/** What is known about a copy before it is read. */
interface RemoteFacts {
  readonly byteLength: number;
  /** Absent for a copy that was not opened. */
  readonly validators: Validators | undefined;
  readonly access: OpenedRemote["access"];
  /** The whole file, if opening has already fetched it. */
  readonly held?: Source | undefined;
}

/** The request target of an address. Credentials in its URL become a header. */
function targetOf(address: RemoteAddress, { timeoutMs }: RemoteOptions): HttpTarget {
  const { url, label, authorization } = parseHttpUrl(address.url);
  const own = authorization === undefined ? {} : { authorization };
  const headers = checkHeaders({ ...own, ...address.headers }, label);
  return { url, label, headers, transport: address.transport, timeoutMs, onRedirect: address.onRedirect };
}

/** Identifies the version of a file on its server; undefined if the server does not state it. */
export function versionOf({ validators, via }: Pick<OpenedRemote, "validators" | "via">): string | undefined {
  const tag = strongTag(validators);
  const at = via === undefined ? "" : ` at ${via}`;
  if (tag !== undefined) return `etag ${tag}${at}`;
  return validators.lastModified === undefined ? undefined : `modified ${validators.lastModified}${at}`;
}

/** The folder of a mirror: the mirror itself, or its parent if the mirror names the file. */
export function mirrorFolder(mirror: string, url: string): string {
  const { label } = parseHttpUrl(mirror);
  const folder = new URL(mirror);
  const name = new URL(url.replace(/^s3:/i, "http:")).pathname.split("/").at(-1) ?? "";
  if (folder.pathname.endsWith(`/${name}`)) folder.pathname = folder.pathname.slice(0, -name.length);
  if (!folder.pathname.endsWith("/")) folder.pathname += "/";
  if (!folder.pathname.startsWith("/")) {
    throw new UsageError("usage/pull.mirror", `Cannot use "${label}" as a mirror: it names no folder`, {
      source: label,
    });
  }
  return folder.href;
}

/** The address of a file of the set at the mirror; keeps the query. */
export function mirrorUrl(folder: string, path: string): string {
  const url = new URL(folder);
  url.pathname += path.split("/").map(encodeURIComponent).join("/");
  return url.href;
}
