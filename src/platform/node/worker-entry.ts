import { parentPort, workerData } from "node:worker_threads";
import type { ServerPort, ToWorker } from "../../workers/protocol.ts";
import { serveJobs } from "../../workers/serve.ts";
import type { WorkerSettings } from "./engine/engine.ts";
import { nodeEngine, nodeJobHost } from "./engine/engine.ts";

/**
 * The script of a worker thread: serves an engine without its own workers over the message port. The port of a thread
 * that tare has not started is its owner's.
 */

const settings = workerData as Partial<WorkerSettings> | null | undefined;

if (parentPort !== null && settings?.startedBy === "tare") {
  const parent = parentPort;
  const port: ServerPort = {
    post: (message, transfer = []) => parent.postMessage(message, transfer),
    listen: (onMessage) => parent.on("message", (message: ToWorker) => onMessage(message)),
  };
  const { tier = "auto" } = settings;
  void nodeEngine({ tier, workers: 0 }).then((engine) => serveJobs(port, nodeJobHost(engine)));
}
