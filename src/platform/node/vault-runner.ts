import { isTareError } from "../../base/errors.ts";
import type { Source, SourceDescriptor } from "../../bytes/source.ts";
import type { SealHost } from "../../formats/aerovault/write/seal-job.ts";
import type { ExtractRequest } from "../../operations/vault/extract-job.ts";
import { localRunner, type SealRunner } from "../../operations/vault/seal-work.ts";
import type { Engine } from "../../primitives/engine.ts";
import { JOBS } from "../../workers/jobs.ts";
import { workersOf } from "../../workers/pooled-engine.ts";
import { nodeJobHost } from "./engine.ts";

/** Below this much work a thread takes longer to start than it saves. */
const WORTH_BYTES = 4 << 20;
/** And below this many files. */
const WORTH_FILES = 256;

export interface RunnerOptions {
  readonly engine: Engine;
  /** What there is to do. */
  readonly byteLength: number;
  readonly files: number;
  readonly signal?: AbortSignal | undefined;
  /** True for chunks that the vault has. */
  readonly isKnown?: ((id: string) => boolean) | undefined;
}

/** True where other threads are worth starting for that much. */
export function isWorthWorkers({ byteLength, files }: Pick<RunnerOptions, "byteLength" | "files">): boolean {
  return byteLength >= WORTH_BYTES || files >= WORTH_FILES;
}

/** Seals on worker threads where there is enough to do, and on this one where not, or where they do not start. */
export function sealRunner(options: RunnerOptions): SealRunner {
  const { engine, signal, isKnown } = options;
  const pool = isWorthWorkers(options) ? workersOf(engine) : undefined;
  const host: SealHost = { ...nodeJobHost(engine), signal, isKnown, open: openHere(engine) };
  const local = localRunner(host);
  if (pool === undefined) return local;
  return {
    width: pool.size,
    async run(request, { onProgress }) {
      try {
        // Without the signal: a job writes to the draft, which must not be closed before the job has ended.
        return await pool.run("vault-seal", request, { onProgress });
      } catch (error) {
        if (isTareError(error) && error.code === "source/worker.unavailable") return local.run(request, { onProgress });
        throw error;
      }
    },
  };
}

/** Extracts on worker threads, or on this one. */
export function extractRunner(options: RunnerOptions & { readonly onProgress?: (byteLength: number) => void }): {
  readonly width: number;
  run(request: ExtractRequest): Promise<number>;
} {
  const { engine, signal, onProgress } = options;
  const pool = isWorthWorkers(options) ? workersOf(engine) : undefined;
  const context = { ...nodeJobHost(engine), signal: signal ?? new AbortController().signal };
  const local = (request: ExtractRequest): Promise<number> =>
    JOBS["vault-extract"](request, { ...context, onProgress: onProgress ?? (() => undefined) });
  if (pool === undefined) return { width: 1, run: local };
  return {
    width: pool.size + 1,
    async run(request) {
      try {
        // Without the signal: a job writes to files that must not be closed before it has ended.
        return await pool.run("vault-extract", request, { onProgress });
      } catch (error) {
        if (isTareError(error) && error.code === "source/worker.unavailable") return local(request);
        throw error;
      }
    },
  };
}

function openHere(engine: Engine): (descriptor: SourceDescriptor) => Promise<Source> {
  const host = nodeJobHost(engine);
  return async (descriptor) => {
    if (descriptor.kind === "slice" || descriptor.kind === "assembled") {
      throw new TypeError(`a file was expected, not ${descriptor.kind}`);
    }
    return host.openDescriptor(descriptor);
  };
}
