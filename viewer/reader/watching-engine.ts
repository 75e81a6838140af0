import type { Bytes } from "../../src/base/bytes.ts";
import type { ReadListener } from "../../src/bytes/layers/base.ts";
import type {
  DigestAlgorithm,
  Engine,
  ExtentsOptions,
  HashExtent,
  RangeOptions,
  ReadableRange,
} from "../../src/primitives/engine.ts";
import { PassingEngine } from "../../src/primitives/passing-engine.ts";

/** Reports the position of hashing, also if workers do it and read the file themselves. */
export function watchingEngine(engine: Engine, onHashed: ReadListener): Engine {
  return new WatchingEngine(engine, onHashed);
}

class WatchingEngine extends PassingEngine {
  readonly #engine: Engine;
  readonly #onHashed: ReadListener;

  constructor(engine: Engine, onHashed: ReadListener) {
    super();
    this.#engine = engine;
    this.#onHashed = onHashed;
  }

  protected override inner(): Engine {
    return this.#engine;
  }

  override digestRange(algorithm: DigestAlgorithm, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
    const onProgress = this.#follow(range.label, [options], options.onProgress);
    return super.digestRange(algorithm, range, { ...options, onProgress });
  }

  override digestExtents(
    algorithm: DigestAlgorithm,
    range: ReadableRange,
    extents: readonly HashExtent[],
    options: ExtentsOptions = {},
  ): Promise<Bytes[]> {
    const onProgress = this.#follow(range.label, mergeExtents(extents), options.onProgress);
    return super.digestExtents(algorithm, range, extents, { ...options, onProgress });
  }

  /**
   * Progress comes in bytes, ordered by offset and each byte once, unless it states an offset. This function adds the
   * place.
   */
  #follow(
    label: string,
    runs: readonly HashExtent[],
    next: ExtentsOptions["onProgress"],
  ): (byteLength: number, offset?: number) => void {
    let run = 0;
    let done = 0;
    return (byteLength, offset) => {
      next?.(byteLength, offset);
      if (offset !== undefined) return this.#onHashed(label, offset, byteLength);
      for (let rest = byteLength; rest > 0; ) {
        const current = runs[run];
        if (current === undefined) return;
        const taken = Math.min(rest, current.byteLength - done);
        this.#onHashed(label, current.offset + done, taken);
        done += taken;
        rest -= taken;
        if (done >= current.byteLength) {
          run++;
          done = 0;
        }
      }
    };
  }
}

/** Extents ordered by offset; overlapping or touching ones are merged into one run. */
export function mergeExtents(extents: readonly HashExtent[]): HashExtent[] {
  const runs: { offset: number; byteLength: number }[] = [];
  for (const { offset, byteLength } of [...extents].sort((a, b) => a.offset - b.offset)) {
    const last = runs.at(-1);
    if (last === undefined || last.offset + last.byteLength < offset) runs.push({ offset, byteLength });
    else last.byteLength = Math.max(last.byteLength, offset + byteLength - last.offset);
  }
  return runs;
}
