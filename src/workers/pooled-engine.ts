import type { Bytes } from "../base/bytes.ts";
import { isTareError } from "../base/errors.ts";
import type { SourceDescriptor } from "../bytes/source.ts";
import { isDType } from "../model/dtype.ts";
import type {
  DigestAlgorithm,
  Engine,
  ExtentsOptions,
  HashExtent,
  QuantizedRange,
  QuantizeRequest,
  RangeOptions,
  ReadableRange,
} from "../primitives/engine.ts";
import { PassingEngine } from "../primitives/passing-engine.ts";
import { isOfBlob } from "../primitives/ranges.ts";
import { digestSplit, splitExtents } from "./digest-split.ts";
import type { WorkerPool } from "./pool.ts";
import { packExtents } from "./protocol.ts";

export interface PooledOptions {
  /** Shorter ranges stay on the calling thread: a message and an open would cost more than they save. */
  readonly minRangeBytes?: number;
  /** From this length on, `digest` copies its input to a worker. By default never: it only keeps a page responsive. */
  readonly minDigestBytes?: number;
  /** No worker starts before this many bytes were requested: a start costs as much as hashing some 50 MB. */
  readonly coldBytes?: number;
}

/**
 * An engine that hashes long ranges on workers, several at a time on several cores, if a worker can open the source
 * itself. `base` does everything else, and everything if workers do not start.
 */
export function pooledEngine(base: Engine, pool: WorkerPool, options: PooledOptions = {}): Engine {
  const engine = new PooledEngine(base, pool, options);
  pools.set(engine, pool);
  return engine;
}

const pools = new WeakMap<Engine, WorkerPool>();

/** The workers of an engine, for jobs that are not primitives; undefined if it has none. */
export function workersOf(engine: Engine): WorkerPool | undefined {
  return pools.get(engine);
}

class PooledEngine extends PassingEngine {
  readonly #base: Engine;
  readonly #pool: WorkerPool;
  readonly #options: Required<PooledOptions>;
  #askedBytes = 0;

  constructor(base: Engine, pool: WorkerPool, options: PooledOptions) {
    super();
    this.#base = base;
    this.#pool = pool;
    this.#options = { minRangeBytes: 1 << 20, minDigestBytes: Number.POSITIVE_INFINITY, coldBytes: 0, ...options };
  }

  protected override inner(): Engine {
    return this.#base;
  }

  protected override present(): Engine {
    return this.#base;
  }

  override async digest(algorithm: DigestAlgorithm, bytes: Bytes): Promise<Bytes> {
    if (bytes.byteLength < this.#options.minDigestBytes) return this.#base.digest(algorithm, bytes);
    const copy = bytes.slice();
    return this.#orBase(
      () => this.#pool.run("digest", { algorithm, bytes: copy }, { transfer: [copy.buffer] }),
      () => this.#base.digest(algorithm, bytes),
    );
  }

  override async digestRange(algorithm: DigestAlgorithm, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
    const { offset, byteLength, signal, onProgress } = options;
    const descriptor = descriptorOf(range);
    if (descriptor === undefined || !this.#isWorthWorker(byteLength)) {
      return this.#base.digestRange(algorithm, range, options);
    }
    return this.#orBase(
      () => this.#pool.run("digest-range", { algorithm, descriptor, offset, byteLength }, { signal, onProgress }),
      () => this.#base.digestRange(algorithm, range, options),
    );
  }

  override async digestExtents(
    algorithm: DigestAlgorithm,
    range: ReadableRange,
    extents: readonly HashExtent[],
    options: ExtentsOptions = {},
  ): Promise<Bytes[]> {
    const descriptor = descriptorOf(range);
    const total = extents.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const base = (): Promise<Bytes[]> => this.#base.digestExtents(algorithm, range, extents, options);
    if (descriptor === undefined || !this.#isWorthWorker(total)) return base();
    const { signal, onProgress } = options;
    // If reading costs as much as hashing, only one worker reads each byte.
    const cut = algorithm === "blake3" && isOfBlob(descriptor) ? await this.#base.cutBlake3?.() : undefined;
    const split = cut && splitExtents(extents, this.#pool.size);
    if (cut !== undefined && split !== undefined) {
      return this.#orBase(() => digestSplit(this.#pool, { descriptor, extents, split, cut }, options), base);
    }
    return this.#orBase(async () => {
      const request = { algorithm, descriptor, extents: packExtents(extents) };
      const digests = await this.#pool.run("digest-extents", request, { signal, onProgress });
      const digestBytes = digests.byteLength / extents.length;
      return extents.map((_, i) => digests.slice(i * digestBytes, (i + 1) * digestBytes));
    }, base);
  }

  override async quantizeRange(request: QuantizeRequest): Promise<QuantizedRange | undefined> {
    const { type, dtype, shape, stored, storedBytes, offset, byteLength, signal } = request;
    const descriptor = descriptorOf(stored);
    if (descriptor === undefined || !isDType(dtype) || !this.#isWorthWorker(byteLength)) return undefined;
    const task = { type, dtype, shape, descriptor, storedBytes, offset, byteLength };
    return this.#orBase<QuantizedRange | undefined>(
      () => this.#pool.run("quantize-range", task, { signal }),
      async () => undefined,
    );
  }

  override expect(byteLength: number): void {
    if (byteLength >= this.#options.coldBytes) this.#pool.prepare();
  }

  override async close(): Promise<void> {
    await this.#pool.close();
    await this.#base.close();
  }

  #isWorthWorker(byteLength: number): boolean {
    if (!(byteLength >= this.#options.minRangeBytes)) return false;
    this.#askedBytes += byteLength;
    return this.#pool.workerCount > 0 || this.#askedBytes >= this.#options.coldBytes;
  }

  async #orBase<T>(pooled: () => Promise<T>, base: () => Promise<T>): Promise<T> {
    try {
      return await pooled();
    } catch (error) {
      if (isTareError(error) && error.code === "source/worker.unavailable") return base();
      throw error;
    }
  }
}

/** Primitives know nothing of Sources, so the field is untyped there. A descriptor with one of our kinds is ours. */
function descriptorOf(range: ReadableRange): SourceDescriptor | undefined {
  const descriptor = range.descriptor as Partial<SourceDescriptor> | undefined;
  switch (descriptor?.kind) {
    case "file":
    case "blob":
    case "assembled":
    case "slice":
      return descriptor as SourceDescriptor;
    default:
      return undefined;
  }
}
