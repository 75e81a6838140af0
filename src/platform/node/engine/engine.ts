import { existsSync } from "node:fs";
import { access } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import type { CommonOptions } from "../../../api/options.ts";
import { Scratch } from "../../../base/bytes.ts";
import { blobSource } from "../../../bytes/blob.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import type { JobHost } from "../../../workers/jobs.ts";
import { MAX_WORKERS, WorkerPool } from "../../../workers/pool.ts";
import { pooledEngine } from "../../../workers/pooled-engine.ts";
import type { FromWorker, WorkerPort } from "../../../workers/protocol.ts";
import { localPort } from "../../../workers/serve.ts";
import { openExtractTarget } from "../extract/target.ts";
import { openBlockingFile, openHeldFile, readWholeFile } from "../files/blocking-source.ts";
import { builtFolder } from "../own-script.ts";
import { writeExpecting } from "../vault/mark.ts";
import { nativeEngine } from "./native.ts";

/** "auto" takes the native parts that are available, "native" requires all of them, "portable" uses none. */
export type EngineTier = "auto" | "native" | "portable";

export interface NodeEngineOptions {
  readonly tier?: EngineTier;
  /** Most worker threads for long ranges; 0 for none. If absent, one for each core, up to eight. */
  readonly workers?: number;
  /**
   * "helps": the calling thread is one of the workers, so that one thread less has to start. For a command that only
   * waits. "computes": the calling thread has its own work and is as busy as the workers, so that one worker less finds
   * a core. If absent, it stays "free" for the rest of the process.
   */
  readonly callingThread?: "free" | "helps" | "computes";
}

/** A thread takes some 40 ms to start; node:crypto hashes this much in that time. */
const COLD_BYTES = 48 << 20;

/**
 * The engine for Node. Workers start once there is enough to hash, and idle ones do not keep the process alive; `close`
 * ends them. Rejects with `unsupported/engine.native` if tier "native" lacks a part.
 */
export async function nodeEngine(options: NodeEngineOptions = {}): Promise<Engine> {
  const tier = options.tier ?? "auto";
  const base = await baseEngine(tier);
  const size = options.workers ?? Math.min(availableParallelism(), MAX_WORKERS);
  // A single worker would only move the work, not share it.
  const entry = size > 1 ? findWorkerEntry() : undefined;
  if (entry === undefined) return base;
  await startThreadPool(entry);
  let local = options.callingThread === "helps" ? localPort(nodeJobHost(base)) : undefined;
  const spawn = (): WorkerPort => {
    const first = local ?? spawnNodeWorker(entry, { startedBy: "tare", tier });
    local = undefined;
    return first;
  };
  const pool = new WorkerPool({ size: options.callingThread === "computes" ? size - 1 : size, spawn });
  return pooledEngine(base, pool, { coldBytes: COLD_BYTES });
}

/** Runs jobs on any thread of Node: with this engine, on blocking sources. */
export function nodeJobHost(engine: Engine): JobHost {
  return {
    engine,
    openDescriptor: async (descriptor) =>
      descriptor.kind === "blob" ? blobSource(descriptor.blob) : openBlockingFile(descriptor),
    openHeld: openHeldFile,
    readWhole: readWholeFile,
    writeAt: writeExpecting,
    scratch: new Scratch(),
    openTarget: openExtractTarget,
  };
}

async function baseEngine(tier: EngineTier): Promise<Engine> {
  if (tier === "portable") return portableEngine();
  return nativeEngine({ missing: tier === "native" ? "refuse" : "use-portable" });
}

/** The settings that worker-entry.ts starts with. */
export interface WorkerSettings {
  /** The script does nothing in threads of others. */
  readonly startedBy: "tare";
  readonly tier: EngineTier;
}

/**
 * The built worker script: beside this code in the package and in the command line. When the sources run unbuilt, the
 * built script is used as well, because Node cannot load TypeScript. Undefined if there is none.
 */
export function findWorkerEntry(): URL | undefined {
  const folder = builtFolder();
  const entry = folder === undefined ? undefined : join(folder, "worker-entry.js");
  return entry !== undefined && existsSync(entry) ? pathToFileURL(entry) : undefined;
}

/**
 * Makes Node start its own threads for file system calls. It does so at the first call, and aborts the process if the
 * system allows no more threads then. Workers come after it: one that cannot start is only an error.
 */
export async function startThreadPool(entry: URL): Promise<void> {
  await access(entry).catch(() => undefined); // a script that is missing is reported when a worker starts
}

/** Starts a worker thread. It does not keep the process alive unless it is marked as busy. */
export function spawnNodeWorker(entry: URL, settings: WorkerSettings): WorkerPort {
  // This script must not run under the loaders and inspectors of the main thread.
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

/** One engine of a kind for all calls of the process: its idle threads do not keep the process alive. */
const shared = new Map<string, Promise<Engine>>();

/**
 * The engine that the options name, else the fastest one. What a call has opened goes on using it, so no call closes it:
 * calls that name the same one share it, with its threads.
 */
export async function sharedEngine({ engine = "auto", concurrency }: CommonOptions): Promise<Engine> {
  if (typeof engine === "object") return engine;
  const kind = `${engine} ${concurrency ?? "default"}`;
  const known = shared.get(kind);
  if (known !== undefined) return known;
  const made = nodeEngine({ tier: engine, ...(concurrency === undefined ? {} : { workers: concurrency }) });
  shared.set(kind, made);
  // A part that is missing now may be there at the next call.
  made.catch(() => shared.delete(kind));
  return made;
}
