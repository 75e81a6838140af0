import { isTareError, reviveError, SourceError, UsageError } from "../base/errors.ts";
import type { EncoderImage, GroupRunner } from "../embedding/encoder/encoder-thread.ts";
import {
  type FromWorker,
  type JobKind,
  type JobRequest,
  type JobResult,
  PROTOCOL_VERSION,
  type WorkerPort,
} from "./protocol.ts";

/** Most workers of a pool, unless the caller asks for more. With more threads, the disk is the limit. */
export const MAX_WORKERS = 8;

/** How long a call waits after an abort for its worker to stop: a worker looks at its messages between two reads. */
const STOP_MS = 250;

export interface PoolOptions {
  /** Most workers at a time. */
  readonly size: number;
  /** Starts one worker; may throw if the host allows none. */
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
  /** Why it was cancelled, which then counts whatever the worker says. */
  cancelled: { readonly reason: unknown } | undefined;
  readonly reject: (reason: unknown) => void;
  /** Called when it is settled. */
  release: () => void;
}

interface Member {
  readonly port: WorkerPort;
  isReady: boolean;
  /** The job that the worker runs. Its signal may have rejected it already. */
  task: Task | undefined;
}

/**
 * Starts workers when there is work for them, up to a maximum. Each does one job at a time. Jobs wait in the order they
 * came. If a worker dies, only its own job fails, and another worker starts with the next job. If one does not start,
 * because the system allows no more threads, the others do all the work.
 */
export class WorkerPool {
  readonly #options: PoolOptions;
  readonly #members = new Set<Member>();
  readonly #queue: Task[] = [];
  #lastId = 0;
  #state: "open" | "unavailable" | "closed" = "open";
  #unavailable = "";
  /** Most workers that start here, as far as is known. */
  #most: number;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#most = options.size;
  }

  /** Most workers at a time. */
  get size(): number {
    return this.#options.size;
  }

  /** Workers alive now. */
  get workerCount(): number {
    return this.#members.size;
  }

  /** Workers that have started and reported it. */
  get readyCount(): number {
    let count = 0;
    for (const { isReady } of this.#members) if (isReady) count++;
    return count;
  }

  /**
   * Rejects with the signal's reason, with the job's own error, with `source/worker.failed` if the worker died, or with
   * `source/worker.unavailable` if workers do not start here at all.
   */
  run<K extends JobKind>(kind: K, request: JobRequest<K>, options: RunOptions = {}): Promise<JobResult<K>> {
    return new Promise<JobResult<K>>((resolve, reject) => {
      const { signal } = options;
      if (signal?.aborted) return reject(signal.reason);
      if (this.#state !== "open") return reject(this.#refusal());
      const onAbort = (): void => this.#cancel(task, signal?.reason);
      const task: Task = {
        id: ++this.#lastId,
        kind,
        request,
        options,
        resolve: (result) => {
          task.release();
          resolve(result);
        },
        reject: (reason) => {
          task.release();
          reject(task.cancelled === undefined ? reason : task.cancelled.reason);
        },
        cancelled: undefined,
        release: () => signal?.removeEventListener("abort", onAbort),
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
      // A request that cannot be cloned is the caller's mistake. The worker is still free.
      const message = "Cannot send the work to a worker: its request must be clonable";
      task.reject(new UsageError("usage/worker.request", message, { source: "worker" }, { cause: error }));
    }
  }

  #findIdle(): Member | undefined {
    for (const member of this.#members) if (member.task === undefined) return member;
    return undefined;
  }

  #spawn(): Member | undefined {
    if (this.#members.size >= this.#most) return undefined;
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
      this.#makeDo(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  }

  #receive(member: Member, message: FromWorker): void {
    if (!this.#members.has(member)) return;
    if (message.type === "ready") {
      member.isReady = message.protocol === PROTOCOL_VERSION;
      if (!member.isReady) this.#lose(member, `its script speaks protocol ${message.protocol}`);
      // Starting made it keep the process alive, whatever was said before; work that was expected may never come.
      else if (member.task === undefined) member.port.setBusy("idle");
      return;
    }
    const { task } = member;
    if (task === undefined || task.id !== message.id) return;
    if (message.type === "progress") {
      // After an abort the caller wants no more progress, but the worker needs a moment to stop.
      if (task.cancelled === undefined) this.#tell(task, message.byteLength);
      return;
    }
    member.task = undefined;
    member.port.setBusy("idle");
    if (message.type === "done" && task.cancelled === undefined) task.resolve(message.result);
    else task.reject(message.type === "done" ? undefined : reviveError(message.error));
    this.#pump();
  }

  /** A worker ended by itself. If it never sent a message, no further one will start either. */
  #lose(member: Member, reason: string): void {
    if (!this.#members.delete(member)) return;
    void member.port.terminate();
    if (!member.isReady) {
      const { task } = member;
      // Buffers that moved to the lost worker cannot be sent again: the caller does that job itself.
      const isSpent = (task?.options.transfer?.length ?? 0) > 0;
      if (task !== undefined && isSpent) task.reject(unavailable(reason));
      else if (task !== undefined && task.cancelled === undefined) this.#queue.unshift(task);
      this.#makeDo(reason);
      this.#pump();
      return;
    }
    const message = `Cannot finish the work on a worker: it ended early (${reason})`;
    member.task?.reject(new SourceError("source/worker.failed", message, { source: "worker" }, { transient: true }));
    this.#pump();
  }

  /** A worker did not start: continues with those that there are, or gives up if there is none. */
  #makeDo(reason: string): void {
    this.#most = this.#members.size;
    if (this.#most > 0) return;
    this.#state = "unavailable";
    this.#unavailable = reason;
    for (const task of this.#queue.splice(0)) task.reject(this.#refusal());
  }

  /** Nothing is above the message of a worker that could take what the listener throws. */
  #tell(task: Task, byteLength: number): void {
    try {
      task.options.onProgress?.(byteLength);
    } catch (error) {
      this.#cancel(task, error);
    }
  }

  #cancel(task: Task, reason: unknown): void {
    task.cancelled ??= { reason };
    const position = this.#queue.indexOf(task);
    if (position >= 0) this.#queue.splice(position, 1);
    const stop = (): void => task.reject(reason);
    const member = [...this.#members].find((one) => one.task === task);
    if (member === undefined) {
      stop();
      return;
    }
    // Its answer says that it has closed what it read.
    const timer = setTimeout(stop, STOP_MS);
    const { release } = task;
    task.release = () => {
      clearTimeout(timer);
      release();
    };
    member.port.post({ type: "cancel", id: task.id });
  }

  #refusal(): SourceError | UsageError {
    const at = { source: "worker" };
    if (this.#state === "closed")
      return new UsageError("usage/worker.closed", "Cannot use workers: they were closed", at);
    return unavailable(this.#unavailable);
  }
}

function unavailable(reason: string): SourceError {
  return new SourceError("source/worker.unavailable", `Cannot start a worker: ${reason}`, { source: "worker" });
}

let count = 0;

/**
 * Computes groups of sentences on a pool's workers. A worker gets the encoder with its first group. Closes the pool.
 */
export function encoderRunner(pool: WorkerPool, lanes: number): GroupRunner {
  const names = new WeakMap<EncoderImage, string>();
  return {
    lanes,
    async run({ image, group }, signal) {
      const encoder = names.get(image) ?? `encoder ${++count}`;
      names.set(image, encoder);
      const request = { encoder, group };
      try {
        const values = await pool.run("embed-group", request, { signal });
        return values ?? (await pool.run("embed-group", { ...request, image }, { signal }));
      } catch (error) {
        if (isTareError(error) && error.code === "source/worker.unavailable") return undefined;
        throw error;
      }
    },
    close: () => pool.close(),
  };
}
