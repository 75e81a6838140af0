/// <reference lib="esnext.disposable" preserve="true" />
import type { Bytes } from "../../base/bytes.ts";
import { isTareError, LimitError } from "../../base/errors.ts";
import { isMemory } from "../../bytes/memory.ts";
import { isSlice } from "../../bytes/slice.ts";
import type { Metadata } from "../../model/metadata.ts";
import type { Model } from "../../model/model.ts";
import type { Tensor, TensorFacts } from "../../model/tensor.ts";
import { type Reservation, TensorBudget } from "./loader-budget.ts";
import { prefetch } from "./prefetch.ts";

export interface LoaderOptions {
  /** Most bytes of tensors that the loader holds or is reading at any time; 64 MiB if absent. */
  readonly maxBytes?: number | undefined;
  /** Ends every read of the loader. */
  readonly signal?: AbortSignal | undefined;
}

export interface LoadOptions {
  readonly signal?: AbortSignal | undefined;
}

/** A part of a tensor's bytes. */
export interface TensorSlice {
  readonly bytes: Bytes;
  /** "view": part of memory that others see too, and that must not be written to; "copy": owned by the caller. */
  readonly storage: "view" | "copy";
}

export interface SliceOptions extends LoadOptions {
  /** First byte; 0 if absent. */
  readonly offset?: number | undefined;
  /** To the end of the tensor if absent. */
  readonly byteLength?: number | undefined;
}

/** 64 MiB: what a page in a browser can spare. */
const LOADER_BYTES = 64 << 20;

/**
 * Loads a model step by step: metadata and index on demand, tensors one by one. `open` is called once, on the first
 * use: `() => openModel(url)`. The bytes of tensors that the loader holds, and of reads in progress, together stay
 * within `maxBytes`, for any size of file. Bytes that were returned belong to the caller.
 */
export function createLoader(open: () => Promise<Model>, options: LoaderOptions = {}): Loader {
  return new Loader(open, options);
}

/** See `createLoader`. */
export class Loader implements AsyncDisposable {
  readonly #open: () => Promise<Model>;
  readonly #signal: AbortSignal | undefined;
  readonly #budget: TensorBudget;
  /** Prefetches in progress, by name; they never reject. */
  readonly #pending = new Map<string, Promise<void>>();
  /** Loads in progress: concurrent calls for the same tensor get the same bytes. */
  readonly #loads = new SharedReads<Bytes>();
  #model: Promise<Model> | undefined;

  constructor(open: () => Promise<Model>, { maxBytes = LOADER_BYTES, signal }: LoaderOptions = {}) {
    this.#open = open;
    this.#signal = signal;
    this.#budget = new TensorBudget(maxBytes);
  }

  /** Bytes of tensors held or being read. */
  get usedBytes(): number {
    return this.#budget.usedBytes;
  }

  /** The opened model. A failure is not kept, so the next call tries again. */
  model(): Promise<Model> {
    this.#model ??= this.#open().catch((error: unknown) => {
      this.#model = undefined;
      throw error;
    });
    return this.#model;
  }

  async loadMetadata(): Promise<Metadata> {
    return (await this.model()).metadata;
  }

  /** The tensors and their places; their bytes are not read. */
  async loadIndex(): Promise<readonly TensorFacts[]> {
    return (await this.model()).tensors;
  }

  /**
   * One tensor's bytes: at once if it was prefetched, else read now. Throws `limit/loader` for a tensor beyond the
   * budget, unless its bytes are already in memory; `streamTensor` and `tensorSlice` read such a tensor in parts. The
   * bytes may be shared, so they must not be written to.
   */
  async loadTensor(name: string, options: LoadOptions = {}): Promise<Bytes> {
    const tensor = await this.#tensor(name);
    const held = this.#budget.held(name);
    if (held !== undefined) return held.bytes({ signal: options.signal });
    return this.#loads.run(name, options.signal, (shared) =>
      this.#within(tensor, tensor.byteLength, { signal: shared }, (signal) => tensor.bytes({ signal })),
    );
  }

  /** One tensor's values as float32. The floats belong to the caller and do not count. */
  async loadFloat32(name: string, options: LoadOptions = {}): Promise<Float32Array<ArrayBuffer>> {
    const tensor = await this.#tensor(name);
    const held = this.#budget.held(name);
    if (held !== undefined) return held.toFloat32({ signal: options.signal });
    return this.#within(tensor, tensor.byteLength, options, (signal) => tensor.toFloat32({ signal }));
  }

  /** A tensor of any size, piece by piece; a piece is valid until the next one is requested. */
  async *streamTensor(name: string, options: LoadOptions = {}): AsyncGenerator<Bytes> {
    const tensor = await this.#tensor(name);
    const source = this.#budget.held(name) ?? tensor;
    yield* source.stream({ signal: this.#joined(options.signal) });
  }

  /** A run of a tensor's bytes: a view if they are already in memory, as in files opened from bytes; else a copy. */
  async tensorSlice(name: string, options: SliceOptions = {}): Promise<TensorSlice> {
    const tensor = await this.#tensor(name);
    const { offset = 0, byteLength = tensor.byteLength - offset } = options;
    const held = this.#budget.held(name);
    if (held !== undefined) {
      return { bytes: await held.source().read(offset, byteLength, { signal: options.signal }), storage: "view" };
    }
    const bytes = await this.#within(tensor, byteLength, options, (signal) =>
      tensor.source().read(offset, byteLength, { signal }),
    );
    // Part of a larger buffer may be shared with others, such as the first bytes of a remote file.
    const isShared = isInMemory(tensor) || bytes.byteLength < bytes.buffer.byteLength;
    return { bytes, storage: isShared ? "view" : "copy" };
  }

  /**
   * Reads tensors that will be needed soon, neighbours together. This is a hint: tensors that do not fit into the
   * budget are left to `loadTensor`, and so are the errors of a failed read and of an unknown name. Resolves when the
   * reads have ended; callers need not wait for that.
   */
  async prefetch(names: Iterable<string>, options: LoadOptions = {}): Promise<void> {
    const model = await this.model();
    const found = [...new Set(names)].flatMap((name) => tensorIn(model, name) ?? []);
    const wanted = found.filter(({ name }) => !this.#isHere(name));
    const reservations = new Map<string, Reservation>();
    for (const { name, byteLength } of wanted) {
      const reservation = this.#budget.tryReserve(byteLength, new Set(wanted.map((tensor) => tensor.name)));
      if (reservation !== undefined) reservations.set(name, reservation);
    }
    if (reservations.size === 0) return;
    const reading = this.#read(model, reservations, this.#joined(options.signal));
    for (const name of reservations.keys()) this.#pending.set(name, reading);
    await reading;
  }

  /** Drops the held tensors and closes the model. */
  async close(): Promise<void> {
    this.#budget.clear();
    const model = await this.#model?.catch(() => undefined);
    await model?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #isHere(name: string): boolean {
    return this.#pending.has(name) || this.#budget.held(name) !== undefined;
  }

  async #read(
    model: Model,
    reservations: ReadonlyMap<string, Reservation>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const maxBytes = this.#budget.maxBytes;
    try {
      const loaded = await prefetch(model, reservations.keys(), { maxBytes, signal });
      for (const [name, reservation] of reservations) reservation.keep(name, loaded.get(name) as Tensor);
    } catch {
      // A later call reads the tensor again, and gets the error if there still is one.
    } finally {
      for (const [name, reservation] of reservations) {
        reservation.release();
        this.#pending.delete(name);
      }
    }
  }

  /** Waits for a prefetch of the tensor, if one is in progress. */
  async #tensor(name: string): Promise<Tensor> {
    const tensor = (await this.model()).tensor(name);
    await this.#pending.get(name);
    return tensor;
  }

  async #within<T>(
    tensor: Tensor,
    byteLength: number,
    options: LoadOptions,
    read: (signal: AbortSignal | undefined) => Promise<T>,
  ): Promise<T> {
    const { maxBytes } = this.#budget;
    const signal = this.#joined(options.signal);
    if (byteLength > maxBytes) {
      if (isInMemory(tensor)) return read(signal);
      throw tooLarge(tensor, byteLength, maxBytes);
    }
    const reservation = await this.#budget.reserve(byteLength, signal);
    try {
      return await read(signal);
    } finally {
      reservation.release();
    }
  }

  #joined(signal: AbortSignal | undefined): AbortSignal | undefined {
    if (signal === undefined || this.#signal === undefined) return signal ?? this.#signal;
    return AbortSignal.any([signal, this.#signal]);
  }
}

function tensorIn(model: Model, name: string): Tensor | undefined {
  try {
    return model.tensor(name);
  } catch (error) {
    if (isTareError(error) && error.code === "usage/tensor-not-found") return undefined;
    throw error;
  }
}

/** True if reading only looks at bytes that are in memory anyway. */
function isInMemory(tensor: Tensor): boolean {
  const source = tensor.source();
  return isMemory(isSlice(source) ? source.whole : source);
}

function tooLarge({ name, file }: Tensor, byteLength: number, maxBytes: number): LimitError {
  const message = `Cannot load "${name}": bytes in memory at once must be <= ${maxBytes}, found ${byteLength}`;
  const hint = "Read it in parts with streamTensor or tensorSlice, or raise maxBytes";
  return new LimitError("limit/loader", message, { source: file ?? name }, { hint });
}

interface SharedRead<T> {
  readonly abort: AbortController;
  readonly result: Promise<T>;
  waiting: number;
}

/** Reads that several callers may need at the same time: each runs once, and ends when no caller waits for it. */
export class SharedReads<T> {
  readonly #reads = new Map<string, SharedRead<T>>();

  /**
   * The result of `read`, or of the same read already in progress for another caller. The caller's signal ends only its
   * own wait.
   */
  run(key: string, signal: AbortSignal | undefined, read: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    const shared = this.#reads.get(key) ?? this.#start(key, read);
    shared.waiting++;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        if (--shared.waiting === 0) this.#end(key, shared, signal?.reason);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", leave, { once: true });
      shared.result.then(resolve, reject).finally(() => signal?.removeEventListener("abort", leave));
    });
  }

  #start(key: string, read: (signal: AbortSignal) => Promise<T>): SharedRead<T> {
    const abort = new AbortController();
    const shared: SharedRead<T> = { abort, result: read(abort.signal), waiting: 0 };
    this.#reads.set(key, shared);
    const forget = (): void => this.#forget(key, shared);
    shared.result.then(forget, forget);
    return shared;
  }

  #end(key: string, shared: SharedRead<T>, reason: unknown): void {
    this.#forget(key, shared);
    shared.abort.abort(reason);
  }

  #forget(key: string, shared: SharedRead<T>): void {
    if (this.#reads.get(key) === shared) this.#reads.delete(key);
  }
}
