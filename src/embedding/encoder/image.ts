import type { Bytes } from "../../base/bytes.ts";
import type { EncoderShape, KernelKind } from "./encoder-shape.ts";
import { EncoderThread, type SentenceGroup } from "./encoder-thread.ts";
import { type BoundKernels, bindShared, loadEncoderKernels, type SharedKernels } from "./kernels.ts";
import { planLayout } from "./layout.ts";

/** A loaded encoder as another thread can have it. Structured-clonable. */
export interface EncoderImage {
  readonly kernel: KernelKind;
  readonly shape: EncoderShape;
  readonly storage:
    | ({ readonly kind: "shared" } & SharedKernels)
    /** Where memory cannot be shared: everything below `weightsEnd`. */
    | { readonly kind: "copied"; readonly weights: Bytes };
}

/** One group's work for another thread. */
export interface GroupRequest {
  readonly image: EncoderImage;
  /** Which working memory: no two requests at a time may name the same. */
  readonly slot: number;
  readonly group: SentenceGroup;
}

/** Runs groups on other threads. */
export interface GroupRunner {
  /** Requests that may be under way at a time. */
  readonly lanes: number;
  /** Pooled vectors, one behind the other; undefined where there are no threads after all. */
  run(request: GroupRequest, signal: AbortSignal | undefined): Promise<Float32Array<ArrayBuffer> | undefined>;
  close(): Promise<void>;
}

/** Binds an image on the thread that got it; its own copy of the weights where they are not shared. */
export async function bindImage({ kernel, shape, storage }: EncoderImage): Promise<BoundKernels> {
  if (storage.kind === "shared") return bindShared(kernel, storage);
  const { byteLength } = planLayout(shape);
  const bound = await loadEncoderKernels({ kind: kernel, byteLength, memory: "private" });
  new Uint8Array(bound.buffer).set(storage.weights);
  return bound;
}

/** Threads of an image by slot. */
export class ImageThreads {
  readonly #shape: EncoderShape;
  readonly #bound: BoundKernels;
  readonly #threads = new Map<number, EncoderThread>();

  constructor(shape: EncoderShape, bound: BoundKernels) {
    this.#shape = shape;
    this.#bound = bound;
  }

  run(slot: number, group: SentenceGroup): Float32Array<ArrayBuffer> {
    const known = this.#threads.get(slot);
    const thread = known ?? new EncoderThread(this.#shape, planLayout(this.#shape), this.#bound, slot);
    this.#threads.set(slot, thread);
    return thread.run(group);
  }
}
