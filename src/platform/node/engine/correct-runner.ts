import { setImmediate } from "node:timers/promises";
import { isTareError } from "../../../base/errors.ts";
import type { Source } from "../../../bytes/source.ts";
import type { ParityGrid } from "../../../model/parity/avec.ts";
import type { GroupHealer } from "../../../operations/correct/heal.ts";
import { windowParity } from "../../../operations/correct/worker.ts";
import type { ParityRunner } from "../../../operations/correct.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { workersOf } from "../../../workers/pooled-engine.ts";
import { isWorthWorkers } from "../vault/adding/runner.ts";

export interface ParityRunnerOptions {
  readonly engine: Engine;
  readonly grid: ParityGrid;
  readonly signal?: AbortSignal | undefined;
}

/** Computes parity on worker threads if there is enough work; undefined if this thread is as fast. */
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

export interface HealerOptions {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
}

/** Heals groups on worker threads if there is enough work; undefined if this thread is as fast. */
export function groupHealer(file: Source, beside: Source, { engine, signal }: HealerOptions): GroupHealer | undefined {
  const pool = workersOf(engine);
  const [{ descriptor, byteLength }, sidecar] = [file, beside.descriptor];
  if (pool === undefined || descriptor === undefined || sidecar === undefined) return undefined;
  if (!isWorthWorkers({ byteLength, files: 1 })) return undefined;
  return {
    get isReady() {
      return pool.readyCount > 0;
    },
    async heal(place, memory) {
      // If the file was cut short, only the caller knows what replaces the rest.
      if (place.windowOffset + place.plan.byteLength > byteLength) return undefined;
      const request = { ...place, file: descriptor, sidecar, memory };
      try {
        return await pool.run("parity-heal", request, { signal, transfer: [memory.buffer] });
      } catch (error) {
        if (!isTareError(error) || error.code !== "source/worker.unavailable") throw error;
        return undefined;
      }
    },
    turn: () => setImmediate(),
  };
}
