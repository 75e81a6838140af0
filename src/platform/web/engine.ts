import type { Engine } from "../../primitives/engine.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { PortableOptions } from "../../primitives/table.ts";
import { WorkerPool } from "../../workers/pool.ts";
import { pooledEngine } from "../../workers/pooled-engine.ts";
import { spawnWebWorker } from "./spawn-worker.ts";

export interface WebEngineOptions extends PortableOptions {
  /** Most workers; 0 for none. Where absent, one more than there are cores, up to eight. */
  readonly workers?: number;
  /** The worker script, where the bundler puts it elsewhere than beside this module. */
  readonly workerUrl?: URL | string;
}

const MAX_WORKERS = 8;

/** A frame of a page at 60 Hz is 16 ms: what takes longer to hash goes to a worker, copy and all. */
const MIN_DIGEST_BYTES = 1 << 20;

/** The engine for browsers: even one worker keeps the page fluid. `close` ends the workers. */
export function webEngine(options: WebEngineOptions = {}): Engine {
  const base = portableEngine(options);
  // Forced to plain TypeScript, nothing may run in WebAssembly behind the caller's back.
  if (options.tier === "javascript") return base;
  // The browser brings a file piece by piece from another process, so that one of them is always waiting.
  const size = options.workers ?? Math.min(navigator.hardwareConcurrency + 1, MAX_WORKERS);
  if (size < 1) return base;
  const pool = new WorkerPool({ size, spawn: () => spawnWebWorker(options.workerUrl) });
  return pooledEngine(base, pool, { minDigestBytes: MIN_DIGEST_BYTES });
}
