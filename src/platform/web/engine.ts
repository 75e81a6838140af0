import type { Engine } from "../../primitives/engine.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { PortableOptions } from "../../primitives/table.ts";
import { MAX_WORKERS, WorkerPool } from "../../workers/pool.ts";
import { pooledEngine } from "../../workers/pooled-engine.ts";
import type { FromWorker, WorkerPort } from "../../workers/protocol.ts";

export interface WebEngineOptions extends PortableOptions {
  /** Most workers; 0 for none. If absent, one more than there are cores, up to eight. */
  readonly workers?: number;
  /** The worker script, if the bundler does not put it next to this module. */
  readonly workerUrl?: URL | string;
}

/** A frame of a page at 60 Hz takes 16 ms. Longer hashing goes to a worker, even though the bytes are copied. */
const MIN_DIGEST_BYTES = 1 << 20;

/** The engine for browsers. Even one worker keeps the page responsive. `close` ends the workers. */
export function webEngine(options: WebEngineOptions = {}): Engine {
  const base = portableEngine(options);
  // If the caller forces plain TypeScript, nothing may run in WebAssembly.
  if (options.tier === "javascript") return base;
  // The browser delivers a file piece by piece from another process, so one worker is always waiting.
  const size = options.workers ?? Math.min(navigator.hardwareConcurrency + 1, MAX_WORKERS);
  if (size < 1) return base;
  const pool = new WorkerPool({ size, spawn: () => spawnWebWorker(options.workerUrl) });
  return pooledEngine(base, pool, { minDigestBytes: MIN_DIGEST_BYTES });
}

/**
 * Starts a module worker in a browser. Without `url` it uses the script next to this file, by an expression that
 * bundlers recognise and replace. Throws if the page's policy forbids workers.
 */
function spawnWebWorker(url?: URL | string): WorkerPort {
  const worker =
    url === undefined
      ? new Worker(new URL("./worker-entry.js", import.meta.url), { type: "module" })
      : new Worker(url, { type: "module" });
  return {
    post: (message, transfer = []) => worker.postMessage(message, [...transfer]),
    listen(onMessage, onEnd) {
      worker.addEventListener("message", (event: MessageEvent<FromWorker>) => onMessage(event.data));
      worker.addEventListener("messageerror", () => onEnd("a message could not be read"));
      // If the script does not load, the event has no message.
      worker.addEventListener("error", (event) => onEnd(event.message || "its script does not run"));
    },
    setBusy() {}, // a page lives as long as its tab
    async terminate() {
      worker.terminate();
    },
  };
}
