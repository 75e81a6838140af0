import { type Bytes, equalBytes } from "../base/bytes.ts";
import type { LimitOverrides } from "../base/limits.ts";
import { encodeHex } from "../base/text.ts";
import { strongTag } from "../bytes/http/headers.ts";
import { type AllowedOrigins, parseHttpUrl } from "../bytes/http/url.ts";
import { type RetryPolicy, retryPolicy } from "../bytes/layers/retry.ts";
import type { Source } from "../bytes/source.ts";
import type { Engine } from "../primitives/engine.ts";
import { discover, nameOfUrl, type PullFile, type PullSet } from "./pull/discover.ts";
import { existsError } from "./pull/errors.ts";
import { FileJob, type PulledFile } from "./pull/file-job.ts";
import {
  askUnchanged,
  mirrorFolder,
  mirrorUrl,
  type OpenedRemote,
  openRemote,
  type RemoteAddress,
  type RemoteOptions,
} from "./pull/remote.ts";
import { Scheduler } from "./pull/scheduler.ts";
import {
  encodeReceipt,
  type PullStore,
  parseReceipt,
  type Receipt,
  type ReceiptEntry,
  sealedFacts,
} from "./pull/store.ts";

export interface PullOptions {
  readonly url: string;
  /** Folders, or the same file elsewhere. */
  readonly mirrors?: readonly string[] | undefined;
  /** How a URL is reached: its http(s) address, and what requests to its server need. */
  readonly connect: (url: string) => Promise<RemoteAddress>;
  readonly store: PullStore;
  readonly engine: Engine;
  readonly limits?: LimitOverrides | undefined;
  /** Connections at once. */
  readonly concurrency?: number | undefined;
  /** Bytes a second over all of them. */
  readonly limitRate?: number | undefined;
  readonly allowedOrigins?: AllowedOrigins | undefined;
  /** "replace" also overwrites files that no pull has put there. */
  readonly overwrite?: "refuse" | "replace" | undefined;
  readonly timeoutMs?: number | undefined;
  readonly retry?: Partial<RetryPolicy> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Bytes that have to be fetched, as far as is known; called again when more is. */
  readonly onTotal?: ((byteLength: number) => void) | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** What a pull did, or would do. */
export interface PullResult {
  /** Undefined where the content is of no format that is known. */
  readonly format: string | undefined;
  /** In the order in which they were put in place: an index comes last. */
  readonly files: readonly PulledFile[];
}

const CONCURRENCY = 8;
const TIMEOUT_MS = 30_000;

/**
 * Mirrors a file or a whole set into a folder: in parallel, resumable, and compared with every digest that there is
 * before anything gets its final name. The index of a set comes last, so that an interrupted pull never looks complete.
 */
export async function pull(options: PullOptions): Promise<PullResult> {
  return new Pull(options).run();
}

/** What `pull` would fetch: opens every file whose length no index states, and writes nothing. */
export async function planPull(options: PullOptions): Promise<PullResult> {
  return new Pull(options).plan();
}

interface Entry {
  readonly address: RemoteAddress;
  readonly source: Source;
  /** Absent where the local file is the current one. */
  readonly opened: OpenedRemote | undefined;
}

class Pull {
  readonly #options: PullOptions;
  readonly #remote: RemoteOptions;
  readonly #store: PullStore;
  #receipt: Receipt = new Map();

  constructor(options: PullOptions) {
    this.#options = options;
    this.#store = options.store;
    this.#remote = {
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
      policy: retryPolicy(options.retry),
      signal: options.signal ?? new AbortController().signal,
    };
  }

  async plan(): Promise<PullResult> {
    this.#receipt = parseReceipt(await this.#store.readReceipt());
    const entry = await this.#openEntry();
    const set = await this.#discover(entry);
    const files: PulledFile[] = [];
    for (const file of set.files) {
      const byteLength = file.byteLength ?? (await this.#lengthOf(file, entry));
      files.push({ path: file.path, byteLength, fetchedBytes: 0, resumedBytes: 0, verified: "none" });
    }
    if (set.index !== undefined) files.push(indexResult(set.index.path, set.index.bytes, 0));
    return { format: set.format, files };
  }

  async run(): Promise<PullResult> {
    this.#receipt = parseReceipt(await this.#store.readReceipt());
    const entry = await this.#openEntry();
    const set = await this.#discover(entry);
    await this.#checkIndex(set);
    const kept = new Map<string, PulledFile>();
    const jobs: FileJob[] = [];
    const mirrors = await this.#connectMirrors();
    for (const file of unique(set.files)) {
      const here = await this.#findHere(file, entry, set);
      if (here !== undefined) kept.set(file.path, here);
      else jobs.push(new FileJob(file, await this.#addressesOf(file, entry, mirrors)));
    }
    await this.#fetch(jobs, set, entry);
    const results = set.files.map(({ path }) => kept.get(path) ?? jobs.find((job) => job.file.path === path)?.result);
    const files = results.filter((result): result is PulledFile => result !== undefined);
    if (set.index !== undefined) files.push(await this.#putIndex(set.index, entry));
    return { format: set.format, files };
  }

  /** The file that the URL names: the local copy where the server says that it is still the same. */
  async #openEntry(): Promise<Entry> {
    const { connect, url } = this.#options;
    const address = await connect(url);
    const path = nameOfUrl(address.url);
    const receipt = await this.#receiptOf(path, address.url);
    if (receipt?.etag !== undefined) {
      const answer = await askUnchanged(address, { etag: receipt.etag, via: receipt.via }, this.#remote);
      if (answer === "unchanged") return { address, source: await this.#store.open(path), opened: undefined };
    }
    const opened = await openRemote(address, this.#remote);
    return { address, source: opened.source, opened };
  }

  async #discover({ address, source, opened }: Entry): Promise<PullSet> {
    const { engine, limits = {}, allowedOrigins = new Set<string>() } = this.#options;
    try {
      return await discover(source, {
        url: address.url,
        engine,
        limits,
        allowedOrigins,
        signal: this.#remote.signal,
      });
    } finally {
      if (opened === undefined) await source.close();
    }
  }

  /** What the receipt says about a file that came from the same place, where this machine wrote it. */
  async #receiptOf(path: string, url: string): Promise<ReceiptEntry | undefined> {
    const entry = await this.#remembered(path);
    return entry?.from === parseHttpUrl(url).label ? entry : undefined;
  }

  /** What the receipt says about a file, where this machine wrote it and nobody has touched the file since. */
  async #remembered(path: string): Promise<ReceiptEntry | undefined> {
    const entry = this.#receipt.get(path);
    if (entry?.seal === undefined) return undefined;
    return (await this.#store.seal(path, sealedFacts(entry))) === entry.seal ? entry : undefined;
  }

  /** Refuses to overwrite an index that is not ours, before anything is fetched for it. */
  async #checkIndex({ index }: PullSet): Promise<void> {
    if (index === undefined || this.#options.overwrite === "replace") return;
    const local = await this.#store.look(index.path);
    if (local === undefined || this.#receipt.get(index.path)?.stamp === local.stamp) return;
    if (local.byteLength === index.bytes.byteLength && equalBytes(await this.#readLocal(index.path), index.bytes))
      return;
    throw existsError(`${this.#store.label}/${index.path}`);
  }

  async #readLocal(path: string): Promise<Bytes> {
    const source = await this.#store.open(path);
    try {
      return await source.read(0, source.byteLength);
    } finally {
      await source.close();
    }
  }

  /** The result for a file that is in place already; undefined where it has to be fetched. */
  async #findHere(file: PullFile, entry: Entry, set: PullSet): Promise<PulledFile | undefined> {
    const local = await this.#store.look(file.path);
    if (local === undefined) return undefined;
    // That a pull put it there is enough for replacing it; that it is right takes a receipt of this machine, or hashing.
    const isOurs = this.#receipt.get(file.path)?.stamp === local.stamp;
    const here = { path: file.path, byteLength: local.byteLength, fetchedBytes: 0, resumedBytes: 0 };
    if (file.sha256 !== undefined) {
      const { sha256 } = file;
      if ((await this.#remembered(file.path))?.sha256 === sha256) return { ...here, verified: "sha256", sha256 };
      const isSame = file.byteLength === undefined || file.byteLength === local.byteLength;
      if (isSame && (await this.#digestOf(file.path)) === sha256) {
        await this.#note(file.path, { from: parseHttpUrl(file.url).label, sha256 });
        return { ...here, verified: "sha256", sha256 };
      }
    } else if (await this.#isCurrent(file, entry, set)) {
      return { ...here, verified: "none" };
    }
    if (isOurs || this.#options.overwrite === "replace") return undefined;
    throw existsError(`${this.#store.label}/${file.path}`);
  }

  /** True where the server says that the file we have is still the one it has. */
  async #isCurrent(file: PullFile, entry: Entry, set: PullSet): Promise<boolean> {
    const receipt = await this.#receiptOf(file.path, file.url);
    if (receipt?.etag === undefined) return false;
    // The single file itself was asked for on opening.
    if (file.url === entry.address.url && set.index === undefined) return entry.opened === undefined;
    const address = await this.#addressOf(file, entry);
    const { etag, via } = receipt;
    return (await askUnchanged(address, { etag, via }, this.#remote)) === "unchanged";
  }

  async #digestOf(path: string): Promise<string> {
    const { engine } = this.#options;
    const source = await this.#store.open(path);
    try {
      const range = { offset: 0, byteLength: source.byteLength, signal: this.#remote.signal };
      return encodeHex(await engine.digestRange("sha256", source, range));
    } finally {
      await source.close();
    }
  }

  async #addressOf({ url, onRedirect }: PullFile, { address }: Entry): Promise<RemoteAddress> {
    if (new URL(url).origin === new URL(address.url).origin) return { ...address, url, onRedirect };
    return { ...(await this.#options.connect(url)), onRedirect };
  }

  async #connectMirrors(): Promise<RemoteAddress[]> {
    const { mirrors = [], url, connect } = this.#options;
    const connected: RemoteAddress[] = [];
    for (const mirror of mirrors) {
      const address = await connect(mirror);
      connected.push({ ...address, url: mirrorFolder(address.url, url) });
    }
    return connected;
  }

  async #addressesOf(file: PullFile, entry: Entry, mirrors: readonly RemoteAddress[]): Promise<RemoteAddress[]> {
    const copies = mirrors.map((mirror) => ({ ...mirror, url: mirrorUrl(mirror.url, file.path) }));
    return [await this.#addressOf(file, entry), ...copies];
  }

  async #lengthOf(file: PullFile, entry: Entry): Promise<number> {
    if (file.url === entry.address.url) return entry.source.byteLength;
    const { source } = await openRemote(await this.#addressOf(file, entry), this.#remote);
    await source.close();
    return source.byteLength;
  }

  async #fetch(jobs: readonly FileJob[], set: PullSet, entry: Entry): Promise<void> {
    if (jobs.length === 0) return;
    const options = this.#options;
    const first = set.index === undefined && entry.opened !== undefined ? entry : undefined;
    const scheduler = new Scheduler(jobs, {
      engine: options.engine,
      limits: options.limits ?? {},
      store: this.#store,
      concurrency: options.concurrency ?? CONCURRENCY,
      limitRate: options.limitRate,
      remote: this.#remote,
      onTotal: options.onTotal,
      onProgress: options.onProgress,
      // The file behind the URL is open already.
      opened: first === undefined ? new Map() : new Map([[first.address.url, first.opened as OpenedRemote]]),
      onDone: (job, { etag, via }) => {
        const from = parseHttpUrl(job.file.url).label;
        return this.#note(job.file.path, { from, etag, via, sha256: job.file.sha256 });
      },
    });
    await scheduler.run();
  }

  async #putIndex(index: NonNullable<PullSet["index"]>, { address, source, opened }: Entry): Promise<PulledFile> {
    if (opened === undefined) return indexResult(index.path, index.bytes, 0);
    await this.#store.replace(index.path, index.bytes);
    // An index that was rewritten for its local files is no copy of the server's.
    const isCopy = index.bytes.byteLength === source.byteLength;
    const etag = isCopy ? strongTag(opened.validators) : undefined;
    await this.#note(index.path, { from: parseHttpUrl(address.url).label, etag, via: opened.via });
    return indexResult(index.path, index.bytes, index.bytes.byteLength);
  }

  async #note(path: string, facts: Pick<ReceiptEntry, "from" | "etag" | "via" | "sha256">): Promise<void> {
    const local = await this.#store.look(path);
    if (local === undefined) return;
    const entry = { ...facts, byteLength: local.byteLength, stamp: local.stamp };
    this.#receipt.set(path, { ...entry, seal: await this.#store.seal(path, sealedFacts(entry)) });
    await this.#store.keepReceipt(encodeReceipt(this.#receipt));
  }
}

function indexResult(path: string, bytes: Bytes, fetchedBytes: number): PulledFile {
  return { path, byteLength: bytes.byteLength, fetchedBytes, resumedBytes: 0, verified: "none" };
}

function unique(files: readonly PullFile[]): PullFile[] {
  return [...new Map(files.map((file) => [file.path, file])).values()];
}
