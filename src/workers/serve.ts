import { type ErrorJson, isTareError, namedSystemError } from "../base/errors.ts";
import { JOBS, type JobContext, type JobHost } from "./jobs.ts";
import {
  type FromWorker,
  type JobKind,
  type JobRequest,
  type JobResult,
  PROTOCOL_VERSION,
  type ServerPort,
  type ToWorker,
  type WorkerPort,
} from "./protocol.ts";

/** Progress is reported in steps of this size. A message for every piece would cost too much. */
const PROGRESS_BYTES = 8 << 20;

/** The loop of a worker: runs jobs until the port closes. The entry scripts of both platforms are this call. */
export function serveJobs(port: ServerPort, host: JobHost): void {
  const running = new Map<number, AbortController>();
  port.listen((message) => {
    if (message.type === "cancel") {
      running.get(message.id)?.abort();
      return;
    }
    const { id, kind, request } = message;
    const controller = new AbortController();
    running.set(id, controller);
    const progress = new ProgressSteps((byteLength) => port.post({ type: "progress", id, byteLength }));
    const handed: ArrayBuffer[] = [];
    const hand = (buffer: ArrayBuffer): void => void handed.push(buffer);
    const context = { ...host, signal: controller.signal, onProgress: progress.add, hand };
    void runJob(kind, request, context)
      .then(
        (result) => {
          progress.flush();
          port.post({ type: "done", id, result }, handed);
        },
        (error: unknown) => port.post({ type: "failed", id, error: describeError(error) }),
      )
      .finally(() => running.delete(id));
  });
  port.post({ type: "ready", protocol: PROTOCOL_VERSION });
}

async function runJob<K extends JobKind>(kind: K, request: JobRequest<K>, context: JobContext): Promise<JobResult<K>> {
  return JOBS[kind](request, context);
}

class ProgressSteps {
  readonly #tell: (byteLength: number) => void;
  #untold = 0;

  constructor(tell: (byteLength: number) => void) {
    this.#tell = tell;
  }

  readonly add = (byteLength: number): void => {
    this.#untold += byteLength;
    if (this.#untold >= PROGRESS_BYTES) this.flush();
  };

  flush(): void {
    if (this.#untold > 0) this.#tell(this.#untold);
    this.#untold = 0;
  }
}

/** An error that is neither ours nor the system's is a bug in our code: it keeps its message, under one code. */
function describeError(error: unknown): ErrorJson {
  const known = isTareError(error) ? error : namedSystemError(error);
  if (known !== undefined) return known.toJSON();
  const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return {
    type: "error",
    name: "SourceError",
    code: "source/worker.failed",
    message: `Cannot finish the work on a worker: ${reason}`,
    at: { source: "worker" },
  };
}

/**
 * A worker without a thread: its jobs run on the calling thread, between its other work. It starts at once, while a
 * thread takes some 50 ms, so a pool whose first worker is local has one start less to wait for. Only for callers that
 * would otherwise just wait.
 */
export function localPort(host: JobHost): WorkerPort {
  let tellPool: (message: FromWorker) => void = () => {};
  let tellServer: (message: ToWorker) => void = () => {};
  let current: number | undefined;
  // Deliver messages later, as between threads, so that neither side is called in the middle of its own call.
  const server: ServerPort = {
    post: (message) => queueMicrotask(() => tellPool(message)),
    listen: (onMessage) => {
      tellServer = onMessage;
    },
  };
  return {
    post(message) {
      if (message.type === "run") current = message.id;
      queueMicrotask(() => tellServer(message));
    },
    listen(onMessage) {
      tellPool = onMessage;
      serveJobs(server, host);
    },
    setBusy() {},
    async terminate() {
      tellPool = () => {};
      if (current !== undefined) tellServer({ type: "cancel", id: current });
    },
  };
}
