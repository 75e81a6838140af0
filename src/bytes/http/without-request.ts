import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { SourceError, UsageError } from "../../base/errors.ts";
import { allocateFor, ReadGuard } from "../layers/base.ts";
import { type RetryPolicy, retryPolicy } from "../layers/retry.ts";
import { type LayeredStore, placeOfFile, type StoredFile } from "../layers/store.ts";
import { memorySource } from "../memory.ts";
import type { PinnedFile } from "../resolver.ts";
import type { ReadOptions, Source, StreamOptions } from "../source.ts";
import { composeHttp } from "./compose.ts";
import type { HttpTarget } from "./exchange.ts";
import { AssumedHttpSource, type HttpFacts } from "./source.ts";

/** Options of `openHttp` for a file that is opened without a request: an index or the store describes it. */
interface StoredOptions {
  readonly retry?: Partial<RetryPolicy> | undefined;
  readonly requestBytes?: number | undefined;
  readonly store?: LayeredStore | undefined;
}

interface PinnedOptions extends StoredOptions {
  readonly signal?: AbortSignal | undefined;
  readonly namedBy?: string | undefined;
  readonly network?: "offline" | undefined;
  /** Opens the file with a request after all, for a server that does not give ranges of it. */
  readonly reopen: (facts: HttpFacts) => Promise<Source>;
}

/** Makes no request before a read misses the store. */
export async function openPinned(target: HttpTarget, pinned: PinnedFile, options: PinnedOptions): Promise<Source> {
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
  readonly store: LayeredStore | undefined;
  readonly prove: (whole: Bytes) => Promise<void>;
  readonly read: () => Promise<Bytes>;
}

/** The whole file, from the store or the server. Only proven bytes are handed out, and only those are kept. */
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
  { file, store }: { readonly file: StoredFile; readonly store: LayeredStore | undefined },
  options: PinnedOptions,
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
  return composeHttp(new AssumedHttpSource(target, facts, () => options.reopen(facts)), layers);
}

/** Offline, the last version that was seen counts as the current one. */
export async function openStored(target: HttpTarget, options: StoredOptions): Promise<Source> {
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

/** The source below a store if no request may be made: every byte that is wanted from it is missing. */
function offlineSource(label: string, byteLength: number): Source {
  return new OfflineSource(label, byteLength);
}

/** The error for bytes that only the network could provide. */
function offlineError(label: string, range?: { readonly offset: number; readonly byteLength: number }): SourceError {
  const what =
    range === undefined ? "nothing of it is" : `bytes ${range.offset} to ${range.offset + range.byteLength} are not`;
  const at = { source: label, ...(range === undefined ? {} : { offset: range.offset }) };
  return new SourceError("source/offline", `Cannot read "${label}" offline: ${what} in the cache`, at, {
    hint: "Read the same bytes once without the option offline",
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
