import { isTareError } from "../../../../base/errors.ts";
import type { Source, SourceDescriptor } from "../../../../bytes/source.ts";
import type { SealHost } from "../../../../formats/aerovault/write/seal/worker.ts";
import type { ExtractRequest, LostFile } from "../../../../operations/vault/extract/worker.ts";
import { inTurn, localRunner, type SealRunner } from "../../../../operations/vault/sealing.ts";
import type { Engine } from "../../../../primitives/engine.ts";
import { JOBS } from "../../../../workers/jobs.ts";
import { workersOf } from "../../../../workers/pooled-engine.ts";
import { nodeJobHost } from "../../engine/engine.ts";

/** With less work than this, a thread takes longer to start than it saves. */
const WORTH_BYTES = 4 << 20;
/** The same limit as a number of files. */
const WORTH_FILES = 256;

export interface RunnerOptions {
  readonly engine: Engine;
  /** The amount of work. */
  readonly byteLength: number;
  readonly files: number;
  readonly signal?: AbortSignal | undefined;
  /** True for chunks that the vault has. */
  readonly isKnown?: ((id: string) => boolean) | undefined;
}

/** True if this much work is worth other threads. */
export function isWorthWorkers({ byteLength, files }: Pick<RunnerOptions, "byteLength" | "files">): boolean {
  return byteLength >= WORTH_BYTES || files >= WORTH_FILES;
}

/** Seals on worker threads if there is enough work, and on this thread if not, or if they do not start. */
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
  run(request: ExtractRequest): Promise<readonly LostFile[]>;
} {
  const { engine, signal, onProgress } = options;
  const pool = isWorthWorkers(options) ? workersOf(engine) : undefined;
  const context = { ...nodeJobHost(engine), signal: signal ?? new AbortController().signal };
  const local = inTurn((request: ExtractRequest) =>
    JOBS["vault-extract"](request, { ...context, onProgress: onProgress ?? (() => undefined) }),
  );
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
