import type { FromWorker, WorkerPort } from "../../workers/protocol.ts";

/**
 * Starts a module worker in a browser. Without `url` the script beside this file is taken, by an expression that
 * bundlers recognise and replace. Throws where the page's policy forbids workers.
 */
export function spawnWebWorker(url?: URL | string): WorkerPort {
  const worker =
    url === undefined
      ? new Worker(new URL("./worker-entry.js", import.meta.url), { type: "module" })
      : new Worker(url, { type: "module" });
  return {
    post: (message, transfer = []) => worker.postMessage(message, [...transfer]),
    listen(onMessage, onEnd) {
      worker.addEventListener("message", (event: MessageEvent<FromWorker>) => onMessage(event.data));
      worker.addEventListener("messageerror", () => onEnd("a message could not be read"));
      // A script that does not load gives a bare event, without a message.
      worker.addEventListener("error", (event) => onEnd(event.message || "its script does not run"));
    },
    setBusy() {}, // a page lives as long as its tab
    async terminate() {
      worker.terminate();
    },
  };
}
