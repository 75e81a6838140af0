import { type Bytes, equalBytes } from "../base/bytes.ts";
import type { LimitOverrides } from "../base/limits.ts";
import { encodeHex } from "../base/text.ts";
import { strongTag } from "../bytes/http/headers.ts";
import { TIMEOUT_MS } from "../bytes/http/transport.ts";
import { type AllowedOrigins, parseHttpUrl } from "../bytes/http/url.ts";
import { type RetryPolicy, retryPolicy } from "../bytes/layers/retry.ts";
import { FULL_LINE } from "../bytes/layers/split-ranges.ts";
import type { Source } from "../bytes/source.ts";
import type { Engine } from "../primitives/engine.ts";
import { discover, nameOfUrl, type PullFile, type PullSet } from "./pull/discover.ts";
import { existsError } from "./pull/errors.ts";
import { FileJob, findChecksum, type PulledFile } from "./pull/file-job.ts";
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
  type LocalFile,
  type PullStore,
  parseReceipt,
  type Receipt,
  type ReceiptEntry,
  type Replaced,
  sealedFacts,
} from "./pull/store.ts";

export interface PullOptions {
  readonly url: string;
  /** Folders, or addresses of the same file elsewhere. */
  readonly mirrors?: readonly string[] | undefined;
  /** Connects a URL: gives its http(s) address, and what requests to its server need. */
  readonly connect: (url: string) => Promise<RemoteAddress>;
  readonly store: PullStore;
  readonly engine: Engine;
  readonly limits?: LimitOverrides | undefined;
  /** Number of connections. */
  readonly concurrency?: number | undefined;
  /** Bytes per second over all connections. */
  readonly limitRate?: number | undefined;
  readonly allowedOrigins?: AllowedOrigins | undefined;
  /** "replace" also overwrites files that no pull has put there. */
  readonly overwrite?: "refuse" | "replace" | undefined;
  readonly timeoutMs?: number | undefined;
  readonly retry?: Partial<RetryPolicy> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Bytes that have to be fetched, as far as is known; called again when more is known. */
  readonly onTotal?: ((byteLength: number) => void) | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** The result of a pull, or of its plan. */
export interface PullResult {
  /** Undefined if the format of the content is not known. */
  readonly format: string | undefined;
  /** In the order in which they were put in place: an index comes last. */
  readonly files: readonly PulledFile[];
}

/**
 * Mirrors a file or a whole set into a folder: in parallel, resumable, and checked against every available digest
 * before anything gets its final name. The index of a set comes last, so that an interrupted pull never looks complete.
 */
export async function pull(options: PullOptions): Promise<PullResult> {
  return new Pull(options).run();
}

/** What `pull` would fetch. Opens every file whose length no index states, and writes nothing. */
export async function planPull(options: PullOptions): Promise<PullResult> {
  return new Pull(options).plan();
}

interface Entry {
  readonly address: RemoteAddress;
  readonly source: Source;
  /** Absent if the local file is the current one. */
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
    for (const { path } of files) await this.#checkPlace(path);
    return { format: set.format, files };
  }

  /** A file that a pull put there may be current, and then stays. */
  async #checkPlace(path: string): Promise<void> {
    const local = await this.#store.look(path);
    if (local === undefined || this.#receipt.get(path)?.stamp !== local.stamp) await this.#store.checkPlace?.(path);
  }

  async run(): Promise<PullResult> {
    this.#receipt = parseReceipt(await this.#store.readReceipt());
    const entry = await this.#openEntry();
    const set = await this.#discover(entry);
    const replacedIndex = await this.#checkIndex(set, entry);
    const kept = new Map<string, PulledFile>();
    const jobs: FileJob[] = [];
    const mirrors = await this.#connectMirrors();
    for (const file of unique(set.files)) {
      const local = await this.#store.look(file.path);
      const here = local === undefined ? undefined : await this.#findHere(file, local, { entry, set });
      if (here !== undefined) {
        // Fetching a file removes its journal itself.
        if ((await this.#store.findLeftover(file.path)) !== undefined) await this.#store.dropLeftover(file.path);
        kept.set(file.path, here);
      } else {
        await this.#store.checkPlace?.(file.path);
        jobs.push(new FileJob(file, await this.#addressesOf(file, entry, mirrors), this.#replaced(local)));
      }
    }
    await this.#fetch(jobs, set, entry);
    const results = set.files.map(({ path }) => kept.get(path) ?? jobs.find((job) => job.file.path === path)?.result);
    const files = results.filter((result): result is PulledFile => result !== undefined);
    if (set.index !== undefined) files.push(await this.#putIndex(set.index, entry, replacedIndex));
    return { format: set.format, files };
  }

  #replaced(local: LocalFile | undefined): Replaced {
    return this.#options.overwrite === "replace" ? "anything" : (local ?? "nothing");
  }

  /** The file that the URL names; the local copy, if the server confirms that it has not changed. */
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

  /** The receipt of a file that came from the same place, if this machine wrote it. */
  async #receiptOf(path: string, url: string): Promise<ReceiptEntry | undefined> {
    const entry = await this.#remembered(path);
    return entry?.from === parseHttpUrl(url).label ? entry : undefined;
  }

  /** The receipt of a file, if this machine wrote it and the file has not changed since. */
  async #remembered(path: string): Promise<ReceiptEntry | undefined> {
    const entry = this.#receipt.get(path);
    if (entry?.seal === undefined) return undefined;
    return (await this.#store.seal(path, sealedFacts(entry))) === entry.seal ? entry : undefined;
  }

  /** Refuses to overwrite an index that is not ours, before anything is fetched for it; gives what may be replaced. */
  async #checkIndex({ index }: PullSet, { opened }: Entry): Promise<Replaced> {
    const local = index === undefined ? undefined : await this.#store.look(index.path);
    if (index === undefined || opened === undefined || (await this.#isInPlace(index))) return this.#replaced(local);
    const isOurs = local === undefined || this.#receipt.get(index.path)?.stamp === local.stamp;
    if (!isOurs && this.#options.overwrite !== "replace") throw existsError(`${this.#store.label}/${index.path}`);
    await this.#store.checkPlace?.(index.path);
    return this.#replaced(local);
  }

  /** True if the local index has the bytes that would be written. */
  async #isInPlace({ path, bytes }: NonNullable<PullSet["index"]>): Promise<boolean> {
    const local = await this.#store.look(path);
    return local?.byteLength === bytes.byteLength && equalBytes(await this.#readLocal(path), bytes);
  }

  async #readLocal(path: string): Promise<Bytes> {
    const source = await this.#store.open(path);
    try {
      return await source.read(0, source.byteLength);
    } finally {
      await source.close();
    }
  }

  /** The result for a file that is already in place; undefined if it has to be fetched. */
  async #findHere(
    file: PullFile,
    local: LocalFile,
    { entry, set }: { readonly entry: Entry; readonly set: PullSet },
  ): Promise<PulledFile | undefined> {
    // To replace the file, it is enough that a pull put it there. To trust it takes a receipt of this machine, or
    // hashing.
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
    } else if ((await this.#isCurrent(file, entry, set)) && (await this.#hasChecksum(file))) {
      return { ...here, verified: file.crc32 === undefined ? "none" : "crc32" };
    }
    if (isOurs || this.#options.overwrite === "replace") return undefined;
    // A pull that died after the file was in place may not have noted it.
    if ((await this.#store.findLeftover(file.path)) === "ours") return undefined;
    throw existsError(`${this.#store.label}/${file.path}`);
  }

  /** True if the server confirms that our file is still current. */
  async #isCurrent(file: PullFile, entry: Entry, set: PullSet): Promise<boolean> {
    const receipt = await this.#receiptOf(file.path, file.url);
    if (receipt?.etag === undefined) return false;
    // The single file itself was already checked on opening.
    if (file.url === entry.address.url && set.index === undefined) return entry.opened === undefined;
    const address = await this.#addressOf(file, entry);
    const { etag, via } = receipt;
    return (await askUnchanged(address, { etag, via }, this.#remote)) === "unchanged";
  }

  /** True if the local file has the CRC-32 that the index states now, or if none is stated. */
  async #hasChecksum({ path, crc32 }: PullFile): Promise<boolean> {
    if (crc32 === undefined) return true;
    const known = await this.#remembered(path);
    if (known?.crc32 === crc32.value) return true;
    const source = await this.#store.open(path);
    try {
      const context = { engine: this.#options.engine, signal: this.#remote.signal };
      if ((await findChecksum(source, crc32, context)) !== undefined) return false;
    } finally {
      await source.close();
    }
    if (known !== undefined) await this.#note(path, { ...known, crc32: crc32.value });
    return true;
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
      concurrency: options.concurrency ?? FULL_LINE,
      limitRate: options.limitRate,
      remote: this.#remote,
      onTotal: options.onTotal,
      onProgress: options.onProgress,
      // The file that the URL names is already open.
      opened: first === undefined ? new Map() : new Map([[first.address.url, first.opened as OpenedRemote]]),
      onDone: (job, { etag, via }) => {
        const from = parseHttpUrl(job.file.url).label;
        const { path, sha256, crc32 } = job.file;
        return this.#note(path, { from, etag, via, sha256, crc32: crc32?.value });
      },
    });
    await scheduler.run();
  }

  async #putIndex(
    index: NonNullable<PullSet["index"]>,
    { address, source, opened }: Entry,
    replaced: Replaced,
  ): Promise<PulledFile> {
    if (opened === undefined) return indexResult(index.path, index.bytes, 0);
    if (!(await this.#isInPlace(index))) await this.#store.put(index.path, index.bytes, replaced);
    // An index that was rewritten for its local files is not a copy of the server's.
    const isCopy = index.bytes.byteLength === source.byteLength;
    const etag = isCopy ? strongTag(opened.validators) : undefined;
    await this.#note(index.path, { from: parseHttpUrl(address.url).label, etag, via: opened.via });
    return indexResult(index.path, index.bytes, index.bytes.byteLength);
  }

  async #note(path: string, facts: Pick<ReceiptEntry, "from" | "etag" | "via" | "sha256" | "crc32">): Promise<void> {
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
