import { availableParallelism } from "node:os";
import { Scratch } from "../../base/bytes.ts";
import { blobSource } from "../../bytes/blob.ts";
import type { Engine } from "../../primitives/engine.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { JobHost } from "../../workers/jobs.ts";
import { WorkerPool } from "../../workers/pool.ts";
import { pooledEngine } from "../../workers/pooled-engine.ts";
import type { WorkerPort } from "../../workers/protocol.ts";
import { localPort } from "../../workers/serve.ts";
import { openBlockingFile, readWholeFile } from "./blocking-file-source.ts";
import { nativeEngine } from "./native-engine.ts";
import { findWorkerEntry, spawnNodeWorker } from "./spawn-worker.ts";
import { writeExpecting } from "./vault-mark.ts";
import { openExtractTarget } from "./vault-target.ts";

/** "auto" takes native parts where they are, "native" demands them all, "portable" uses none. */
export type EngineTier = "auto" | "native" | "portable";

export interface NodeEngineOptions {
  readonly tier?: EngineTier;
  /** Most worker threads for long ranges; 0 for none. Where absent, one for each core, up to eight. */
  readonly workers?: number;
  /**
   * "helps": the calling thread is one of the workers, so that one thread less has to start. For a command that only
   * waits. "computes": it is as busy as they are with work of its own, so that one worker less finds a core. Where absent
   * it stays "free" for what else the process does.
   */
  readonly callingThread?: "free" | "helps" | "computes";
}

/** More cores than this wait for the disk, not for each other. */
const MAX_WORKERS = 8;

/** A thread takes some 40 ms to start; node:crypto hashes this much in that time. */
const COLD_BYTES = 48 << 20;

/**
 * The engine for Node. Workers start once there is enough to hash, and idle ones do not keep the process alive;
 * `close` ends them. Rejects with `unsupported/engine.native` where tier "native" lacks a part.
 */
export async function nodeEngine(options: NodeEngineOptions = {}): Promise<Engine> {
  const tier = options.tier ?? "auto";
  const base = await baseEngine(tier);
  const size = options.workers ?? Math.min(availableParallelism(), MAX_WORKERS);
  // A single worker would only move the work, not share it.
  const entry = size > 1 ? findWorkerEntry() : undefined;
  if (entry === undefined) return base;
  let local = options.callingThread === "helps" ? localPort(nodeJobHost(base)) : undefined;
  const spawn = (): WorkerPort => {
    const first = local ?? spawnNodeWorker(entry, { tier });
    local = undefined;
    return first;
  };
  const pool = new WorkerPool({ size: options.callingThread === "computes" ? size - 1 : size, spawn });
  return pooledEngine(base, pool, { coldBytes: COLD_BYTES });
}

/** How jobs run on any thread of Node: with this engine, on sources that block. */
export function nodeJobHost(engine: Engine): JobHost {
  return {
    engine,
    openDescriptor: async (descriptor) =>
      descriptor.kind === "blob" ? blobSource(descriptor.blob) : openBlockingFile(descriptor),
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
