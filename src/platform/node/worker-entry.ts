import { parentPort, workerData } from "node:worker_threads";
import type { ServerPort, ToWorker } from "../../workers/protocol.ts";
import { serveJobs } from "../../workers/serve.ts";
import { nodeEngine, nodeJobHost } from "./engine.ts";
import type { WorkerSettings } from "./spawn-worker.ts";

/** The script of a worker thread: an engine without workers of its own, behind the message port. */

if (parentPort !== null) {
  const parent = parentPort;
  const port: ServerPort = {
    post: (message, transfer = []) => parent.postMessage(message, transfer),
    listen: (onMessage) => parent.on("message", (message: ToWorker) => onMessage(message)),
  };
  const { tier } = workerData as WorkerSettings;
  void nodeEngine({ tier, workers: 0 }).then((engine) => serveJobs(port, nodeJobHost(engine)));
}
