import type { Bytes } from "../../base/bytes.ts";
import type { Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import {
  encodeFront,
  type PlannedSegment,
  planFileSidecar,
  type SidecarPlan,
} from "../../formats/aerocorrect/sidecar.ts";
import type { ParityGrid } from "../../model/parity/avec.ts";
import type { Engine } from "../../primitives/engine.ts";
import { windowParity } from "./parity-job.ts";

/** Makes payloads of windows, perhaps on other threads. */
export interface ParityRunner {
  /** Windows that are worth having under way at a time. */
  readonly width: number;
  run(segment: PlannedSegment): Promise<Bytes>;
}

export interface GenerateOptions {
  readonly engine: Engine;
  readonly grid: ParityGrid;
  /** On this thread where absent. */
  readonly runner?: ParityRunner | undefined;
  /** 64 MiB where absent; tests use shorter ones. */
  readonly windowBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * Writes the sidecar of a file to a sink that can go back, which the caller commits. The file is read twice, each time once
 * through: for its digest and for its parity. A few windows of parity are in memory, whatever the file's length.
 */
export async function generateSidecar(source: Source, sink: Sink, options: GenerateOptions): Promise<SidecarPlan> {
  const { engine, grid, signal, onProgress } = options;
  const plan = planFileSidecar(source.byteLength, grid, options.windowBytes);
  const runner = options.runner ?? localRunner(source, options);
  sink.reserve?.(plan.byteLength);
  const digest = engine.digestRange("sha256", source, { offset: 0, byteLength: source.byteLength, signal });
  // A window that fails is the error; the digest is then of no use, and nobody waits for it.
  digest.catch(() => undefined);
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < plan.segments.length) {
      const segment = plan.segments[next++] as PlannedSegment;
      if (segment.windowLength === 0) continue;
      await sink.fill?.(segment.offset, await runner.run(segment));
      onProgress?.(segment.windowLength);
    }
  };
  await Promise.all(Array.from({ length: runner.width }, work));
  await sink.fill?.(0, await encodeFront(engine, plan, await digest));
  return plan;
}

function localRunner(source: Source, { engine, grid, signal }: GenerateOptions): ParityRunner {
  return {
    width: 1,
    run: ({ windowOffset: offset, windowLength: byteLength }) =>
      windowParity(source, { offset, byteLength, grid }, { engine, signal }),
  };
}
