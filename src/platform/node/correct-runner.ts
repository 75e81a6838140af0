import { isTareError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import type { ParityGrid } from "../../model/parity/grid.ts";
import type { ParityRunner } from "../../operations/correct/generate.ts";
import { windowParity } from "../../operations/correct/parity-job.ts";
import type { Engine } from "../../primitives/engine.ts";
import { workersOf } from "../../workers/pooled-engine.ts";
import { isWorthWorkers } from "./vault-runner.ts";

export interface ParityRunnerOptions {
  readonly engine: Engine;
  readonly grid: ParityGrid;
  readonly signal?: AbortSignal | undefined;
}

/** Makes parity on worker threads where there is enough to do; undefined where this thread does as well. */
export function parityRunner(source: Source, { engine, grid, signal }: ParityRunnerOptions): ParityRunner | undefined {
  const { descriptor, byteLength } = source;
  const pool = workersOf(engine);
  if (pool === undefined || descriptor === undefined || !isWorthWorkers({ byteLength, files: 1 })) return undefined;
  return {
    width: pool.size,
    async run({ windowOffset: offset, windowLength }) {
      const request = { offset, byteLength: windowLength, grid };
      try {
        return await pool.run("parity-window", { ...request, descriptor }, { signal });
      } catch (error) {
        if (!isTareError(error) || error.code !== "source/worker.unavailable") throw error;
        return windowParity(source, request, { engine, signal });
      }
    },
  };
}
