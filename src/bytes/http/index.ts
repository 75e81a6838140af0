import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { SourceError, UsageError } from "../../base/errors.ts";
import { allocateFor, ReadGuard } from "../layers/base.ts";
import { retryPolicy } from "../layers/retry.ts";
import { placeOfFile, type RangeStore, type StoredFile } from "../layers/store.ts";
import { memorySource } from "../memory.ts";
import type { PinnedFile } from "../resolver.ts";
import type { ReadOptions, Source, StreamOptions } from "../source.ts";
import type { HttpTarget } from "./exchange.ts";
import { composeHttp, HttpOpening, type HttpOptions, reopenWith } from "./open.ts";
import { AssumedHttpSource, type HttpFacts } from "./source.ts";
import { fetchTransport } from "./transport.ts";
import { checkHeaders, parseHttpUrl } from "./url.ts";

export type { HttpOptions } from "./open.ts";
export { fetchTransport, type HttpRequest, type HttpResponse, type HttpTransport } from "./transport.ts";
export { type HttpResolverOptions, httpResolver, type OpenUrl, parseOrigin } from "./url.ts";

const TIMEOUT_MS = 30_000;

/**
 * Opens a file on a web server. One request gets its length and its first bytes together; with a store it is answered
 * without a body where nothing changed, and for a pinned file it is not made at all. Later reads are ranges, merged and
 * split, repeated where that can help, and checked to come from the same version of the file: where that changes,
 * reads fail with `source/http.changed` and the caller opens it again.
 */
export async function openHttp(url: string, options: HttpOptions = {}): Promise<Source> {
  const target = targetOf(url, options);
  options.signal?.throwIfAborted();
  if (options.pinned !== undefined) return openPinned(target, options.pinned, options);
  if (options.network === "offline") return openStored(target, options);
  return new HttpOpening(target, options).run();
}

function targetOf(url: string, options: HttpOptions): HttpTarget {
  const address = parseHttpUrl(url);
  const authorization = address.authorization === undefined ? {} : { authorization: address.authorization };
  return {
    url: address.url,
    label: address.label,
    transport: options.transport ?? fetchTransport(),
    headers: checkHeaders({ ...authorization, ...options.headers }, address.label),
    timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
    onRedirect: options.onRedirect,
  };
}

/** Nothing is asked before a read misses the store. */
async function openPinned(target: HttpTarget, pinned: PinnedFile, options: HttpOptions): Promise<Source> {
  const { label } = target;
  checkPinned(pinned, label);
  const { byteLength, sha256, prove } = pinned;
  const place = placeOfFile(target.url, { pinned, namedBy: options.namedBy });
  const file: StoredFile = { place, label, validator: `sha256:${sha256}`, byteLength };
  if (prove === undefined) return composePinned(target, { file, store: options.store }, options);
  const read = (): Promise<Bytes> => {
    const plain = composePinned(target, { file, store: undefined }, options);
    return plain.read(0, byteLength, { signal: options.signal }).finally(() => plain.close());
  };
  return memorySource(await provenWhole({ file, store: options.store, prove, read }), label);
}

interface ProvenFile {
  readonly file: StoredFile;
  readonly store: RangeStore | undefined;
  readonly prove: (whole: Bytes) => Promise<void>;
  readonly read: () => Promise<Bytes>;
}

/** All of a file, from the store or the server. Only bytes that were proven are handed out, and only those are kept. */
async function provenWhole({ file, store, prove, read }: ProvenFile): Promise<Bytes> {
  if (store !== undefined) {
    const stored = allocateFor(file.byteLength, file.label);
    if ((await store.get(file, 0, stored)) === file.byteLength) {
      const isProven = await prove(stored).then(
        () => true,
        () => false,
      );
      if (isProven) return stored;
      await store.forget(file.place);
    }
  }
  const whole = await read();
  await prove(whole);
  await store?.put(file, 0, whole);
  return whole;
}

function composePinned(
  target: HttpTarget,
  { file, store }: { readonly file: StoredFile; readonly store: RangeStore | undefined },
  options: HttpOptions,
): Source {
  const { label, byteLength } = file;
  const layers = { policy: retryPolicy(options.retry), store, file, requestBytes: options.requestBytes };
  if (options.network === "offline") return composeHttp(offlineSource(label, byteLength), layers);
  const facts: HttpFacts = {
    byteLength,
    validators: { etag: undefined, lastModified: undefined },
    contentRange: target.transport.conditions === "none" ? "hidden" : "shown",
    known: "pinned",
  };
  return composeHttp(new AssumedHttpSource(target, facts, reopenWith(target, facts, options)), layers);
}

/** Offline the last version that was seen counts as the current one. */
async function openStored(target: HttpTarget, options: HttpOptions): Promise<Source> {
  const { label } = target;
  const place = placeOfFile(target.url);
  const version = await options.store?.recall(place);
  if (version === undefined) throw offlineError(label);
  const layers = { policy: retryPolicy(options.retry), store: options.store, file: { ...version, place, label } };
  return composeHttp(offlineSource(label, version.byteLength), layers);
}

function checkPinned({ byteLength, sha256 }: PinnedFile, label: string): void {
  if (Number.isSafeInteger(byteLength) && byteLength >= 0 && /^[0-9a-f]{64}$/.test(sha256)) return;
  const message = `Cannot open "${label}": a pinned file needs a length and 64 lower-case hex digits of SHA-256`;
  throw new UsageError("usage/http.pinned", message, { source: label });
}

/** What lies below a store where no request may be made: every byte that is wanted of it is missing. */
export function offlineSource(label: string, byteLength: number): Source {
  return new OfflineSource(label, byteLength);
}

/** The error for what only the network could give. */
export function offlineError(
  label: string,
  range?: { readonly offset: number; readonly byteLength: number },
): SourceError {
  const what =
    range === undefined ? "nothing of it is" : `bytes ${range.offset} to ${range.offset + range.byteLength} are not`;
  const at = { source: label, ...(range === undefined ? {} : { offset: range.offset }) };
  return new SourceError("source/offline", `Cannot read "${label}" offline: ${what} in the cache`, at, {
    hint: "Run the same command once without --offline",
  });
}

class OfflineSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #guard: ReadGuard;

  constructor(label: string, byteLength: number) {
    this.label = label;
    this.byteLength = byteLength;
    this.#guard = new ReadGuard(label, byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (byteLength > 0) throw offlineError(this.label, { offset, byteLength });
    return options.into ?? EMPTY_BYTES;
  }

  // biome-ignore lint/correctness/useYield: a source without bytes has nothing to yield
  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    if (byteLength > 0) throw offlineError(this.label, { offset, byteLength });
  }

  close(): Promise<void> {
    this.#guard.close();
    return Promise.resolve();
  }
}
