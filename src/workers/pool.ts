import { reviveError, SourceError, UsageError } from "../base/errors.ts";
import {
  type FromWorker,
  type JobKind,
  type JobRequest,
  type JobResult,
  PROTOCOL_VERSION,
  type WorkerPort,
} from "./protocol.ts";

export interface PoolOptions {
  /** Most workers at a time. */
  readonly size: number;
  /** Starts one worker; may throw where the host allows none. */
  spawn(): WorkerPort;
}

export interface RunOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Buffers of the request that move to the worker instead of being copied. */
  readonly transfer?: readonly ArrayBuffer[];
}

interface Task {
  readonly id: number;
  readonly kind: JobKind;
  readonly request: JobRequest<JobKind>;
  readonly options: RunOptions;
  readonly resolve: (result: JobResult<JobKind>) => void;
  readonly reject: (reason: unknown) => void;
}

interface Member {
  readonly port: WorkerPort;
  isReady: boolean;
  /** The job this worker is busy with, which may have been rejected by its signal already. */
  task: Task | undefined;
}

/**
 * Workers that are started when there is work for them, up to a number, and do one job at a time each. Jobs wait in
 * the order they came. A worker that dies takes only its own job with it; another one starts with the next job.
 */
export class WorkerPool {
  readonly #options: PoolOptions;
  readonly #members = new Set<Member>();
  readonly #queue: Task[] = [];
  #lastId = 0;
  #state: "open" | "unavailable" | "closed" = "open";
  #unavailable = "";

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Most workers at a time. */
  get size(): number {
    return this.#options.size;
  }

  /** Workers alive now. */
  get workerCount(): number {
    return this.#members.size;
  }

  /** Workers that have started and said so. */
  get readyCount(): number {
    let count = 0;
    for (const { isReady } of this.#members) if (isReady) count++;
    return count;
  }

  /**
   * Rejects with the signal's reason, with the job's own error, with `source/worker.failed` where the worker died, or
   * with `source/worker.unavailable` where workers do not start here at all.
   */
  run<K extends JobKind>(kind: K, request: JobRequest<K>, options: RunOptions = {}): Promise<JobResult<K>> {
    return new Promise<JobResult<K>>((resolve, reject) => {
      const { signal } = options;
      if (signal?.aborted) return reject(signal.reason);
      if (this.#state !== "open") return reject(this.#refusal());
      const onAbort = (): void => this.#cancel(task);
      const task: Task = {
        id: ++this.#lastId,
        kind,
        request,
        options,
        resolve: (result) => {
          signal?.removeEventListener("abort", onAbort);
          resolve(result);
        },
        reject: (reason) => {
          signal?.removeEventListener("abort", onAbort);
          reject(reason);
        },
      };
      signal?.addEventListener("abort", onAbort);
      this.#queue.push(task);
      this.#pump();
    });
  }

  /** Starts every worker now, for work that is sure to come. */
  prepare(): void {
    let started: Member | undefined;
    do started = this.#state === "open" ? this.#spawn() : undefined;
    while (started !== undefined);
  }

  /** Ends every worker; jobs that wait or run reject with `usage/worker.closed`. Closing twice is allowed. */
  async close(): Promise<void> {
    this.#state = "closed";
    const members = [...this.#members];
    this.#members.clear();
    for (const task of [...members.flatMap(({ task }) => task ?? []), ...this.#queue.splice(0)]) {
      task.reject(this.#refusal());
    }
    await Promise.all(members.map(({ port }) => port.terminate()));
  }

  #pump(): void {
    while (this.#queue.length > 0) {
      const member = this.#findIdle() ?? this.#spawn();
      const task = member === undefined ? undefined : this.#queue.shift();
      if (member === undefined || task === undefined) return;
      this.#start(member, task);
    }
  }

  #start(member: Member, task: Task): void {
    const { id, kind, request, options } = task;
    try {
      member.port.post({ type: "run", id, kind, request }, options.transfer);
      member.task = task;
      member.port.setBusy("busy");
    } catch (error) {
      // A request that cannot be cloned is the caller's mistake; the worker is as free as before.
      const message = "Cannot send the work to a worker: its request must be clonable";
      task.reject(new UsageError("usage/worker.request", message, { source: "worker" }, { cause: error }));
    }
  }

  #findIdle(): Member | undefined {
    for (const member of this.#members) if (member.task === undefined) return member;
    return undefined;
  }

  #spawn(): Member | undefined {
    if (this.#members.size >= this.#options.size) return undefined;
    try {
      const port = this.#options.spawn();
      const member: Member = { port, isReady: false, task: undefined };
      port.listen(
        (message) => this.#receive(member, message),
        (reason) => this.#lose(member, reason),
      );
      this.#members.add(member);
      return member;
    } catch (error) {
      this.#giveUp(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  }

  #receive(member: Member, message: FromWorker): void {
    if (!this.#members.has(member)) return;
    if (message.type === "ready") {
      member.isReady = message.protocol === PROTOCOL_VERSION;
      if (!member.isReady) this.#lose(member, `its script speaks protocol ${message.protocol}`);
      return;
    }
    const { task } = member;
    if (task === undefined || task.id !== message.id) return;
    if (message.type === "progress") {
      // After an abort the caller is no longer interested, though the worker needs a moment to stop.
      if (!task.options.signal?.aborted) task.options.onProgress?.(message.byteLength);
      return;
    }
    member.task = undefined;
    member.port.setBusy("idle");
    if (message.type === "done") task.resolve(message.result);
    else task.reject(reviveError(message.error));
    this.#pump();
  }

  /** A worker ended by itself. Where it never answered, no other one will: whoever asks must do without. */
  #lose(member: Member, reason: string): void {
    if (!this.#members.delete(member)) return;
    void member.port.terminate();
    if (!member.isReady) {
      if (member.task !== undefined) this.#queue.unshift(member.task);
      this.#giveUp(reason);
      return;
    }
    const message = `Cannot finish the work on a worker: it ended early (${reason})`;
    member.task?.reject(new SourceError("source/worker.failed", message, { source: "worker" }, { transient: true }));
    this.#pump();
  }

  #giveUp(reason: string): void {
    this.#state = "unavailable";
    this.#unavailable = reason;
    for (const task of this.#queue.splice(0)) task.reject(this.#refusal());
  }

  #cancel(task: Task): void {
    const position = this.#queue.indexOf(task);
    if (position >= 0) this.#queue.splice(position, 1);
    for (const member of this.#members) {
      if (member.task === task) member.port.post({ type: "cancel", id: task.id });
    }
    task.reject(task.options.signal?.reason);
  }

  #refusal(): SourceError | UsageError {
    const at = { source: "worker" };
    if (this.#state === "closed")
      return new UsageError("usage/worker.closed", "Cannot use workers: they were closed", at);
    return new SourceError("source/worker.unavailable", `Cannot start a worker: ${this.#unavailable}`, at);
  }
}
