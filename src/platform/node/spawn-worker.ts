import { existsSync } from "node:fs";
import { Worker } from "node:worker_threads";
import type { FromWorker, WorkerPort } from "../../workers/protocol.ts";
import type { EngineTier } from "./engine.ts";

/** What worker-entry.ts is started with. */
export interface WorkerSettings {
  readonly tier: EngineTier;
}

/**
 * The built worker script: beside this file in the package and in the bundled command line. Where the sources run as
 * they are, Node could not load a script in TypeScript, so the built one is taken; undefined where there is none.
 */
export function findWorkerEntry(): URL | undefined {
  if (!import.meta.url.endsWith(".ts")) return new URL("./worker-entry.js", import.meta.url);
  const built = new URL("../../../dist/node/worker-entry.js", import.meta.url);
  return existsSync(built) ? built : undefined;
}

/** Starts a worker thread. It does not keep the process alive until it is told that it is busy. */
export function spawnNodeWorker(entry: URL, settings: WorkerSettings): WorkerPort {
  // Loaders and inspectors of the main thread are not for this script.
  const worker = new Worker(entry, { workerData: settings, execArgv: [] });
  worker.unref();
  return {
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    listen(onMessage, onEnd) {
      worker.on("message", (message: FromWorker) => onMessage(message));
      worker.on("messageerror", (error) => onEnd(error.message));
      worker.on("error", (error: Error) => onEnd(error.message));
      worker.on("exit", (code) => onEnd(`exit code ${code}`));
    },
    setBusy(state) {
      if (state === "busy") worker.ref();
      else worker.unref();
    },
    async terminate() {
      await worker.terminate();
    },
  };
}
