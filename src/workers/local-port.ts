import type { JobHost } from "./jobs.ts";
import type { FromWorker, ServerPort, ToWorker, WorkerPort } from "./protocol.ts";
import { serveJobs } from "./serve.ts";

/**
 * A worker that is no thread: its jobs run on the calling one, between its other work. It starts at once, where a thread
 * takes some 50 ms, so a pool whose first worker is local has one start less to wait for. Only for callers that would do
 * nothing but wait.
 */
export function localPort(host: JobHost): WorkerPort {
  let tellPool: (message: FromWorker) => void = () => {};
  let tellServer: (message: ToWorker) => void = () => {};
  let current: number | undefined;
  // Messages arrive later, as they would from a thread: neither side is called while it is still in the middle of a call.
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
