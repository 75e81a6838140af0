import { isTareError, SourceError } from "../../base/errors.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { strongTag } from "../../bytes/http/headers.ts";
import { SPLIT_BYTES } from "../../bytes/layers/split-ranges.ts";
import type { Engine } from "../../primitives/engine.ts";
import { isChange, sizeError, spaceError } from "./errors.ts";
import { Blocks, fetchLease, WriteFailure } from "./fetch.ts";
import { type Begun, checkArrived, type FileJob, readLayout, resumePieces } from "./file-job.ts";
import { PIECE_BYTES } from "./pieces.ts";
import { TokenBucket } from "./rate.ts";
import { type OpenedRemote, openRemote, Remote, type RemoteOptions } from "./remote.ts";
import type { PullStore } from "./store.ts";
import { FileTransfer, type Lease, TAKEN_OVER } from "./transfer.ts";

export interface SchedulerOptions {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly store: PullStore;
  readonly concurrency: number;
  readonly limitRate: number | undefined;
  readonly remote: RemoteOptions;
  readonly onTotal: ((byteLength: number) => void) | undefined;
  readonly onProgress: ((byteLength: number) => void) | undefined;
  /** Files that are already open, by URL. */
  readonly opened: ReadonlyMap<string, OpenedRemote>;
  /** Called when a file is in place. */
  readonly onDone: (job: FileJob, version: Pick<Begun, "etag" | "via">) => Promise<void>;
}

/** Most buffer memory of all connections: two blocks each. */
const BUFFER_BYTES = 32 << 20;
const BLOCK_BYTES = 1 << 20;
/** How often idle connections check whether a busy one lags. */
const LOOK_MS = 100;

/** Distributes the files of a pull over a fixed number of connections until all are in place. */
export class Scheduler {
  readonly #jobs: readonly FileJob[];
  readonly #options: SchedulerOptions;
  readonly #blocks: Blocks;
  readonly #bucket: TokenBucket | undefined;
  readonly #stop = new AbortController();
  readonly #finishing = new Set<Promise<void>>();
  readonly #opened: Map<string, OpenedRemote>;
  #wake: (() => void)[] = [];

  constructor(jobs: readonly FileJob[], options: SchedulerOptions) {
    this.#jobs = jobs;
    this.#options = options;
    this.#opened = new Map(options.opened);
    const share = BUFFER_BYTES / 2 / options.concurrency;
    this.#blocks = new Blocks(Math.min(BLOCK_BYTES, Math.max(64 << 10, Math.floor(share))));
    this.#bucket = options.limitRate === undefined ? undefined : new TokenBucket(options.limitRate);
  }

  /** Resolves when every file is in place; rejects with the first failure that cannot be recovered. */
  async run(): Promise<void> {
    const { signal } = this.#options.remote;
    const interrupt = (): void => this.#fail(signal.reason);
    signal.addEventListener("abort", interrupt, { once: true });
    if (signal.aborted) interrupt();
    try {
      const connections = Array.from({ length: this.#options.concurrency }, () => this.#work());
      await Promise.all(connections.map((work) => work.catch((error: unknown) => this.#fail(error))));
      await Promise.all(this.#finishing);
    } finally {
      signal.removeEventListener("abort", interrupt);
      for (const { begun } of this.#jobs) await begun?.partial.close();
    }
    if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
  }

  #fail(error: unknown): void {
    if (!this.#stop.signal.aborted) this.#stop.abort(error);
    for (const job of this.#jobs) job.stop(error);
    this.#changed();
  }

  /** The loop of one connection. */
  async #work(): Promise<void> {
    while (!this.#stop.signal.aborted && this.#jobs.some(({ state }) => state !== "done")) {
      const lease = this.#nextLease();
      if (lease !== undefined) await this.#fetch(lease.job, lease.lease);
      else if (!(await this.#openNext())) await this.#wait();
    }
  }

  #nextLease(): { readonly job: FileJob; readonly lease: Lease } | undefined {
    const now = performance.now();
    for (const job of this.#jobs) {
      const { begun } = job;
      if (begun === undefined || job.state !== "active" || job.isRestarting) continue;
      const lease = begun.transfer.take(this.#runBytes(begun.transfer), now);
      if (lease !== undefined) return { job, lease };
    }
    if (this.#jobs.some(({ state }) => state === "waiting")) return undefined;
    return this.#takeOver(now);
  }

  /** Long runs while there is plenty of work, shorter ones towards the end, so that all connections end together. */
  #runBytes({ openBytes }: FileTransfer): number {
    if (this.#jobs.some(({ state }) => state === "waiting")) return SPLIT_BYTES;
    return Math.max(PIECE_BYTES, Math.min(SPLIT_BYTES, openBytes / this.#options.concurrency));
  }

  #takeOver(now: number): { readonly job: FileJob; readonly lease: Lease } | undefined {
    let slowest: { readonly job: FileJob; readonly lease: Lease } | undefined;
    let longest = 0;
    for (const job of this.#jobs) {
      if (job.isRestarting) continue;
      for (const lease of job.begun?.transfer.leases ?? []) {
        const left = lease.timeLeft(now);
        if (left > longest) [slowest, longest] = [{ job, lease }, left];
      }
    }
    const lease = slowest?.lease.file.takeOver(slowest.lease, now);
    return slowest === undefined || lease === undefined ? undefined : { job: slowest.job, lease };
  }

  /** Opens the next file of the list; false if there is none. */
  async #openNext(): Promise<boolean> {
    const job = this.#jobs.find(({ state }) => state === "waiting");
    if (job === undefined) return false;
    job.state = "opening";
    try {
      job.begun = await this.#begin(job);
      job.state = "active";
      this.#tellTotal();
      if (job.begun.transfer.isComplete) this.#finish(job);
    } catch (error) {
      if (this.#stop.signal.aborted || !isTareError(error) || !goElsewhere(job)) this.#fail(error);
      else await job.requeue();
    }
    this.#changed();
    return true;
  }

  async #begin(job: FileJob): Promise<Begun> {
    const { engine, limits, store } = this.#options;
    const { file, signal } = job;
    const remote = { ...this.#options.remote, signal };
    const address = job.addresses[job.home] as (typeof job.addresses)[number];
    const opened = this.#opened.get(address.url) ?? (await openRemote(address, remote));
    // A file that starts again must see what the server has now.
    this.#opened.delete(address.url);
    const { byteLength } = opened.source;
    if (file.byteLength !== undefined && file.byteLength !== byteLength) {
      throw sizeError(opened.source.label, file.byteLength, byteLength);
    }
    const layout = await readLayout(opened, { engine, limits, signal, sha256: file.sha256 });
    const own = new Remote(address, { ...opened, byteLength }, remote);
    // Bytes of different servers are mixed only if the result can be verified.
    const isComparable = layout.comparison.by !== "nothing" || file.sha256 !== undefined;
    const others = isComparable ? job.addresses.filter((other) => other !== address) : [];
    const copies = others.map((other) => {
      return new Remote(other, { byteLength, validators: undefined, access: "ranges" }, remote);
    });
    const partial = await store.openPartial(file.path, job.replaced);
    try {
      const resumed = await resumePieces(partial, layout, { engine, signal });
      const { pieces, comparison } = layout;
      const resumedBytes = [...resumed].reduce((sum, index) => sum + (pieces[index]?.byteLength ?? 0), 0);
      const free = await store.freeBytes();
      const missing = byteLength - resumedBytes;
      if (free !== undefined && missing > free) {
        if (resumedBytes === 0) await partial.discard();
        throw spaceError(opened.source.label, missing, free);
      }
      const transfer = new FileTransfer({ pieces, remotes: [own, ...copies], partial, resumed });
      const version = { etag: strongTag(opened.validators), via: opened.via };
      return { partial, transfer, comparison, byteLength, resumedBytes, ...version };
    } catch (error) {
      await partial.close();
      throw error;
    }
  }

  async #fetch(job: FileJob, lease: Lease): Promise<void> {
    const { engine, onProgress } = this.#options;
    try {
      await fetchLease(lease, {
        engine,
        blocks: this.#blocks,
        bucket: this.#bucket,
        onProgress: (byteLength) => {
          job.fetchedBytes += byteLength;
          onProgress?.(byteLength);
        },
      });
    } catch (error) {
      this.#explain(job, lease, { error, index: lease.next });
    }
    const rate = lease.finalRate(performance.now());
    if (rate !== undefined) lease.remote.measured(rate);
    lease.file.release(lease);
    await this.#afterLease(job, lease.file);
    this.#changed();
  }

  /** Decides what a failed request means for its file. */
  #explain(job: FileJob, lease: Lease, { error, index }: { readonly error: unknown; readonly index: number }): void {
    if (error === TAKEN_OVER || this.#stop.signal.aborted) return;
    const { remote, file } = lease;
    if (error instanceof WriteFailure) this.#fail(error.error);
    else if (!isTareError(error)) this.#fail(error);
    else if (error.code === "integrity/pull.page") {
      if (file.noteDamage(index, remote) === "hopeless") this.#fail(error);
    } else if (error instanceof SourceError && isChange(error) && remote === file.remotes[0]) {
      if (job.restart("same") === "refused") this.#fail(error);
    } else {
      remote.failed(error, performance.now(), this.#options.remote.policy);
      if (file.isForsaken && !goElsewhere(job)) this.#fail(error);
    }
  }

  async #afterLease(job: FileJob, transfer: FileTransfer): Promise<void> {
    if (job.begun?.transfer !== transfer || transfer.leases.size > 0 || this.#stop.signal.aborted) return;
    if (job.isRestarting) await this.#startOver(job);
    else if (transfer.isComplete && job.state === "active") this.#finish(job);
  }

  /** Starts the file again; what it had does not count any more. */
  async #startOver(job: FileJob): Promise<void> {
    job.state = "opening";
    job.fetchedBytes = 0;
    await job.requeue();
  }

  /** Checks and publishes the file while the connections continue with other files. */
  #finish(job: FileJob): void {
    const { begun } = job;
    if (begun === undefined) return;
    job.state = "finishing";
    const work = this.#publish(job, begun)
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#finishing.delete(work);
        this.#changed();
      });
    this.#finishing.add(work);
  }

  async #publish(job: FileJob, begun: Begun): Promise<void> {
    const { engine, limits, onDone } = this.#options;
    const { partial, comparison, byteLength, resumedBytes } = begun;
    const { path, sha256, crc32 } = job.file;
    const source = await partial.reopen(byteLength);
    try {
      const options = { label: source.label, sha256, crc32, comparison, engine, limits, signal: job.signal };
      const verified = await checkArrived(source, options);
      await source.close();
      await partial.publish(byteLength);
      job.result = {
        path,
        byteLength,
        fetchedBytes: job.fetchedBytes,
        resumedBytes,
        verified,
        ...(sha256 === undefined ? {} : { sha256 }),
      };
      await onDone(job, begun);
      job.state = "done";
    } catch (error) {
      await source.close();
      const isDamaged = isTareError(error) && error.code.startsWith("integrity/");
      if (!isDamaged) throw error;
      // Continuing from it would only find the same damage again.
      await partial.discard();
      if (job.restart("next") === "refused") throw error;
      await this.#startOver(job);
    }
  }

  #tellTotal(): void {
    let total = 0;
    for (const { file, begun } of this.#jobs) {
      total += begun === undefined ? (file.byteLength ?? 0) : begun.byteLength - begun.resumedBytes;
    }
    this.#options.onTotal?.(total);
  }

  #changed(): void {
    const waiting = this.#wake;
    this.#wake = [];
    for (const wake of waiting) wake();
  }

  /** Waits until something changes, a server may be used again, or it is time to look for a lagging connection. */
  #wait(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, LOOK_MS);
      this.#wake.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}

/** Starts again at another server; false if all were tried. */
function goElsewhere(job: FileJob): boolean {
  return job.addresses.length > 1 && job.restart("next") === "accepted";
}
