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
  /** Most bytes of tensors that the loader holds or is reading at any time; 64 MiB where absent. */
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
  /** "view": a part of memory that others see too, and that nobody may write to; "copy": the caller's own. */
  readonly storage: "view" | "copy";
}

export interface SliceOptions extends LoadOptions {
  /** First byte; 0 where absent. */
  readonly offset?: number | undefined;
  /** To the end of the tensor where absent. */
  readonly byteLength?: number | undefined;
}

/** 64 MiB: what a page in a browser can spare. */
const LOADER_BYTES = 64 << 20;

/**
 * Loads a model step by step: metadata and index when they are asked for, tensors one by one. `open` is called once, on
 * the first use: `() => openModel(url)`. Bytes of tensors that the loader holds, and reads that are under way, stay within
 * `maxBytes` together, however large the file is; bytes that were handed out are the caller's.
 */
export function createLoader(open: () => Promise<Model>, options: LoaderOptions = {}): StreamingLoader {
  return new StreamingLoader(open, options);
}

/** See `createLoader`. */
export class StreamingLoader {
  readonly #open: () => Promise<Model>;
  readonly #signal: AbortSignal | undefined;
  readonly #budget: TensorBudget;
  /** Prefetches under way, by name; they never reject. */
  readonly #pending = new Map<string, Promise<void>>();
  /** Loads under way: whoever asks for the same tensor meanwhile gets the same bytes. */
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

  /** The opened model; a failure is not kept, so that the next call tries again. */
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

  /** What tensors there are and where; their bytes are not read. */
  async loadIndex(): Promise<readonly TensorFacts[]> {
    return (await this.model()).tensors;
  }

  /**
   * One tensor's bytes: at once where it was prefetched, else read now. Throws `limit/loader` for a tensor beyond the
   * budget, which `streamTensor` and `tensorSlice` read in parts, unless its bytes are in memory already. The bytes may be
   * shared: nobody may write to them.
   */
  async loadTensor(name: string, options: LoadOptions = {}): Promise<Bytes> {
    const tensor = await this.#tensor(name);
    const held = this.#budget.held(name);
    if (held !== undefined) return held.bytes({ signal: options.signal });
    return this.#loads.run(name, options.signal, (shared) =>
      this.#within(tensor, tensor.byteLength, { signal: shared }, (signal) => tensor.bytes({ signal })),
    );
  }

  /** One tensor's values as float32; the floats themselves are the caller's and do not count. */
  async loadFloat32(name: string, options: LoadOptions = {}): Promise<Float32Array<ArrayBuffer>> {
    const tensor = await this.#tensor(name);
    const held = this.#budget.held(name);
    if (held !== undefined) return held.toFloat32({ signal: options.signal });
    return this.#within(tensor, tensor.byteLength, options, (signal) => tensor.toFloat32({ signal }));
  }

  /** A tensor of any size, piece by piece; a piece is valid until the next one is asked for. */
  async *streamTensor(name: string, options: LoadOptions = {}): AsyncGenerator<Bytes> {
    const tensor = await this.#tensor(name);
    const source = this.#budget.held(name) ?? tensor;
    yield* source.stream({ signal: this.#joined(options.signal) });
  }

  /** A run of a tensor's bytes: a view where they are in memory already, as in files opened from bytes; else a copy. */
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
    // What is part of a larger buffer is somebody else's too: the first bytes of a remote file, for one.
    const isShared = isInMemory(tensor) || bytes.byteLength < bytes.buffer.byteLength;
    return { bytes, storage: isShared ? "view" : "copy" };
  }

  /**
   * Reads tensors that will be asked for soon, neighbours together. A hint: what does not fit into the budget is left to
   * `loadTensor`, and so are the errors of a read that fails and of a name that the model does not have. Resolves when
   * the reads have ended; there is no need to wait for that.
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

  /** Lets go of what is held and closes the model. */
  async close(): Promise<void> {
    this.#budget.clear();
    const model = await this.#model?.catch(() => undefined);
    await model?.close();
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
      // Whoever needs a tensor reads it again, and gets the error if there still is one.
    } finally {
      for (const [name, reservation] of reservations) {
        reservation.release();
        this.#pending.delete(name);
      }
    }
  }

  /** Waits for a prefetch of the tensor, if one is under way. */
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

/** True where reading is looking at bytes that are in memory anyway. */
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

/** Reads that several callers may ask for at the same time: each is done once, and ends when nobody waits for it. */
export class SharedReads<T> {
  readonly #reads = new Map<string, SharedRead<T>>();

  /** What `read` gives, or what the same read under way for somebody else gives; the caller's signal ends only its own wait. */
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
