import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { type Embedder, type EmbedderOptions, loadEmbedder as loadPortable } from "../../embedding/embedder.ts";
import type { Model } from "../../model/model.ts";
import { type Input, openModel, requireModel } from "../../open.ts";
import { encoderRunner } from "../../workers/encoder-runner.ts";
import { WorkerPool } from "../../workers/pool.ts";
import { nodeEngine } from "./engine.ts";
import type { NodeOpenOptions } from "./open.ts";
import { openTarget } from "./open-target.ts";
import { enableRelaxedSimd } from "./relaxed-simd.ts";
import { findWorkerEntry, spawnNodeWorker } from "./spawn-worker.ts";

export interface NodeEmbedderOptions
  extends Omit<EmbedderOptions, "runner">,
    Pick<NodeOpenOptions, "engine" | "limits" | "http" | "password"> {
  /** Threads for large batches; as many as there are cores, up to eight, where absent. 1 is the calling one. */
  readonly threads?: number | undefined;
}

const MAX_THREADS = 8;

/**
 * An embedder of a path, a directory, a URL or anything else that `open` takes, or of a model that is open already. Large
 * batches are spread over worker threads, which share the weights. What was opened here is closed with the embedder.
 */
export async function loadEmbedder(input: Input | Model, options: NodeEmbedderOptions = {}): Promise<Embedder> {
  enableRelaxedSimd();
  const { model, resolver, close } = await openFor(input, options);
  try {
    const runner = threadRunner(options.threads ?? Math.min(availableParallelism(), MAX_THREADS));
    const onClose = async (): Promise<void> => {
      await close();
      await options.onClose?.();
    };
    return await loadPortable(model, { ...options, resolver: options.resolver ?? resolver, runner, onClose });
  } catch (error) {
    await close();
    throw error;
  }
}

interface OpenedModel extends Pick<EmbedderOptions, "resolver"> {
  readonly model: Model;
  close(): Promise<void>;
}

async function openFor(input: Input | Model, options: NodeEmbedderOptions): Promise<OpenedModel> {
  if (isModel(input)) return { model: input, close: () => Promise.resolve() };
  const { limits, signal, http, password } = options;
  const engine = options.engine ?? (await nodeEngine({ workers: 0 }));
  if (typeof input !== "string" && !(input instanceof URL)) {
    const model = await openModel(input, { engine, limits, signal, password });
    return { model, close: () => model.close() };
  }
  const text = input instanceof URL && input.protocol === "file:" ? fileURLToPath(input) : String(input);
  const opened = await openTarget(text, { engine, limits, signal, http, password });
  try {
    return { model: requireModel(opened.container), resolver: opened.siblings, close: () => opened.close() };
  } catch (error) {
    await opened.close();
    throw error;
  }
}

function isModel(input: Input | Model): input is Model {
  return typeof input === "object" && "kind" in input && input.kind === "model";
}

/** Undefined where there is nobody to share the work with. */
function threadRunner(threads: number): EmbedderOptions["runner"] {
  const entry = threads > 1 ? findWorkerEntry() : undefined;
  if (entry === undefined) return undefined;
  const pool = new WorkerPool({ size: threads, spawn: () => spawnNodeWorker(entry, { tier: "portable" }) });
  return encoderRunner(pool, threads);
}
