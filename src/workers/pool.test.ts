import { describe, expect, it } from "vitest";
import { FormatError } from "../base/errors.ts";
import { WorkerPool } from "./pool.ts";
import { type FromWorker, PROTOCOL_VERSION, type ToWorker, type WorkerPort } from "./protocol.ts";

const AT = { source: "test" };
const REQUEST = { algorithm: "sha256", bytes: new Uint8Array(0) } as const;

/** A worker whose answers come from the test. */
class FakeWorker implements WorkerPort {
  readonly posted: ToWorker[] = [];
  state: "busy" | "idle" | "ended" = "idle";
  say: (message: FromWorker) => void = () => {};
  end: (reason: string) => void = () => {};

  post(message: ToWorker): void {
    this.posted.push(message);
  }

  listen(onMessage: (message: FromWorker) => void, onEnd: (reason: string) => void): void {
    this.say = onMessage;
    this.end = onEnd;
  }

  setBusy(state: "busy" | "idle"): void {
    this.state = state;
  }

  async terminate(): Promise<void> {
    this.state = "ended";
  }

  ready(): void {
    this.say({ type: "ready", protocol: PROTOCOL_VERSION });
  }

  /** Ends its last job with a result of one byte. */
  finish(value: number): void {
    this.say({ type: "done", id: this.posted.at(-1)?.id ?? 0, result: Uint8Array.of(value) });
  }
}

function fakePool(size: number): { readonly pool: WorkerPool; readonly workers: FakeWorker[] } {
  const workers: FakeWorker[] = [];
  const spawn = (): FakeWorker => {
    const worker = new FakeWorker();
    workers.push(worker);
    return worker;
  };
  return { pool: new WorkerPool({ size, spawn }), workers };
}

function at<T>(list: readonly T[], index: number): T {
  const item = list[index];
  if (item === undefined) throw new Error(`Nothing at ${index}`);
  return item;
}

describe("WorkerPool", () => {
  it("starts workers as jobs come, up to its size, and reuses them in the order of the jobs", async () => {
    const { pool, workers } = fakePool(2);
    expect(workers).toHaveLength(0);
    const jobs = [1, 2, 3].map(() => pool.run("digest", REQUEST));
    expect(workers).toHaveLength(2);
    for (const worker of workers) worker.ready();
    at(workers, 1).finish(20);
    expect(at(workers, 1).posted).toHaveLength(2);
    at(workers, 1).finish(30);
    at(workers, 0).finish(10);
    expect(await Promise.all(jobs)).toEqual([Uint8Array.of(10), Uint8Array.of(20), Uint8Array.of(30)]);
  });

  it("answers an abort when the worker has stopped, and so has closed what it read", async () => {
    const { pool, workers } = fakePool(1);
    const control = new AbortController();
    let isSettled = false;
    const job = pool.run("digest", REQUEST, { signal: control.signal });
    job
      .catch(() => undefined)
      .finally(() => {
        isSettled = true;
      });
    at(workers, 0).ready();
    control.abort("enough");
    await Promise.resolve();
    expect([at(at(workers, 0).posted, 1).type, isSettled]).toEqual(["cancel", false]);
    at(workers, 0).finish(1);
    await expect(job).rejects.toBe("enough");
  });

  it("gives back what a listener throws: nothing above a worker's message could take it", async () => {
    const { pool, workers } = fakePool(1);
    const onProgress = (): never => {
      throw new Error("mine");
    };
    const job = pool.run("digest", REQUEST, { onProgress });
    at(workers, 0).ready();
    at(workers, 0).say({ type: "progress", id: at(at(workers, 0).posted, 0).id, byteLength: 1 });
    expect(at(at(workers, 0).posted, 1).type).toBe("cancel");
    at(workers, 0).finish(1);
    await expect(job).rejects.toThrow("mine");
  });

  it("starts every worker at once on prepare()", async () => {
    const { pool, workers } = fakePool(3);
    pool.prepare();
    expect(workers).toHaveLength(3);
    const job = pool.run("digest", REQUEST);
    expect(workers).toHaveLength(3);
    for (const worker of workers) worker.ready();
    workers.find(({ posted }) => posted.length > 0)?.finish(1);
    expect(await job).toEqual(Uint8Array.of(1));
  });

  it("lets the process end while workers are idle", async () => {
    const { pool, workers } = fakePool(1);
    const job = pool.run("digest", REQUEST);
    const worker = at(workers, 0);
    worker.ready();
    expect(worker.state).toBe("busy");
    worker.finish(1);
    await job;
    expect(worker.state).toBe("idle");
  });

  it("passes on progress and the job's own error, class and code intact", async () => {
    const { pool, workers } = fakePool(1);
    const steps: number[] = [];
    const job = pool.run("digest", REQUEST, { onProgress: (byteLength) => steps.push(byteLength) });
    const worker = at(workers, 0);
    worker.ready();
    worker.say({ type: "progress", id: 1, byteLength: 5 });
    worker.say({ type: "progress", id: 999, byteLength: 5000 });
    worker.say({ type: "failed", id: 1, error: new FormatError("format/test", "Cannot test", AT).toJSON() });
    const error = await job.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(FormatError);
    expect(error).toMatchObject({ code: "format/test", at: AT });
    expect(steps).toEqual([5]);
  });

  it("loses only the job of a worker that dies, and starts another worker for the next one", async () => {
    const { pool, workers } = fakePool(1);
    const doomed = pool.run("digest", REQUEST);
    const waiting = pool.run("digest", REQUEST);
    at(workers, 0).ready();
    at(workers, 0).end("exit code 134");
    await expect(doomed).rejects.toMatchObject({ code: "source/worker.failed", transient: true });
    expect(workers).toHaveLength(2);
    at(workers, 1).ready();
    at(workers, 1).finish(7);
    expect(await waiting).toEqual(Uint8Array.of(7));
  });

  it("gives up if a worker dies before its first message", async () => {
    const { pool, workers } = fakePool(1);
    const jobs = [pool.run("digest", REQUEST), pool.run("digest", REQUEST)];
    at(workers, 0).end("Cannot find module");
    for (const job of [...jobs, pool.run("digest", REQUEST)]) {
      await expect(job).rejects.toMatchObject({
        code: "source/worker.unavailable",
        message: "Cannot start a worker: Cannot find module",
      });
    }
    expect(workers).toHaveLength(1);
  });

  it("does all work on the workers that start, if the system allows no further ones", async () => {
    const workers: FakeWorker[] = [];
    let attempts = 0;
    const spawn = (): FakeWorker => {
      if (++attempts > 2) throw new Error("ERR_WORKER_INIT_FAILED: EAGAIN");
      const worker = new FakeWorker();
      workers.push(worker);
      return worker;
    };
    const pool = new WorkerPool({ size: 4, spawn });
    pool.prepare();
    const jobs = Array.from({ length: 4 }, () => pool.run("digest", REQUEST));
    for (const worker of workers) worker.ready();
    for (const round of [1, 2]) for (const worker of workers) worker.finish(round);
    expect((await Promise.all(jobs)).map(([value]) => value)).toEqual([1, 1, 2, 2]);
    expect([attempts, pool.workerCount]).toEqual([3, 2]);
  });

  it("passes the job of a worker that dies before its first message to another one", async () => {
    const { pool, workers } = fakePool(2);
    const moved = { transfer: [new ArrayBuffer(1)] };
    const jobs = [pool.run("digest", REQUEST), pool.run("digest", REQUEST)];
    at(workers, 0).ready();
    at(workers, 1).end("no thread");
    at(workers, 0).finish(1);
    at(workers, 0).finish(2);
    expect(await Promise.all(jobs)).toEqual([Uint8Array.of(1), Uint8Array.of(2)]);
    expect(workers).toHaveLength(2);
    const other = fakePool(2);
    const [, spent] = [other.pool.run("digest", REQUEST), other.pool.run("digest", REQUEST, moved)];
    at(other.workers, 1).end("no thread");
    await expect(spent).rejects.toMatchObject({ code: "source/worker.unavailable" });
  });

  it("gives up if spawning throws, or if the script is of another build", async () => {
    const spawn = (): never => {
      throw new Error("workers are forbidden");
    };
    await expect(new WorkerPool({ size: 1, spawn }).run("digest", REQUEST)).rejects.toMatchObject({
      message: "Cannot start a worker: workers are forbidden",
    });
    const { pool, workers } = fakePool(1);
    const job = pool.run("digest", REQUEST);
    at(workers, 0).say({ type: "ready", protocol: 0 });
    await expect(job).rejects.toMatchObject({ code: "source/worker.unavailable" });
  });

  it("cancels a waiting job without starting it, and a running one by message", async () => {
    const { pool, workers } = fakePool(1);
    const reason = new Error("enough");
    const controllers = [new AbortController(), new AbortController()];
    const jobs = controllers.map(({ signal }) => pool.run("digest", REQUEST, { signal }));
    const last = pool.run("digest", REQUEST);
    const worker = at(workers, 0);
    worker.ready();
    for (const controller of controllers) controller.abort(reason);
    await Promise.all(jobs.map((job) => expect(job).rejects.toBe(reason)));
    expect(worker.posted.map(({ type, id }) => `${type} ${id}`)).toEqual(["run 1", "cancel 1"]);
    expect(worker.state).toBe("busy"); // until it has answered
    worker.say({ type: "done", id: 1, result: Uint8Array.of(1) });
    expect(at(worker.posted, 2)).toMatchObject({ type: "run", id: 3 });
    worker.finish(3);
    expect(await last).toEqual(Uint8Array.of(3));
  });

  it("starts nothing for a signal that is already aborted", async () => {
    const { pool, workers } = fakePool(1);
    const reason = new Error("enough");
    await expect(pool.run("digest", REQUEST, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(workers).toHaveLength(0);
  });

  it("refuses a request that cannot be cloned, and goes on", async () => {
    const { pool, workers } = fakePool(1);
    const first = pool.run("digest", REQUEST);
    const worker = at(workers, 0);
    worker.ready();
    worker.finish(1);
    await first;
    const post = worker.post.bind(worker);
    worker.post = () => {
      throw new DOMException("could not be cloned", "DataCloneError");
    };
    await expect(pool.run("digest", REQUEST)).rejects.toMatchObject({ code: "usage/worker.request" });
    worker.post = post;
    const next = pool.run("digest", REQUEST);
    worker.finish(2);
    expect(await next).toEqual(Uint8Array.of(2));
  });

  it("ends every worker and every job on close(), which may be called twice", async () => {
    const { pool, workers } = fakePool(1);
    const jobs = [pool.run("digest", REQUEST), pool.run("digest", REQUEST)];
    const closed = Promise.all([pool.close(), pool.close()]);
    for (const job of [...jobs, pool.run("digest", REQUEST)]) {
      await expect(job).rejects.toMatchObject({ code: "usage/worker.closed" });
    }
    await closed;
    expect(at(workers, 0).state).toBe("ended");
    expect(pool.workerCount).toBe(0);
  });
});
