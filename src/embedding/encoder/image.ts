import type { Bytes } from "../../base/bytes.ts";
import type { EncoderShape, KernelKind } from "./encoder-shape.ts";
import { EncoderThread, type SentenceGroup } from "./encoder-thread.ts";
import { bindShared, loadEncoderKernels, type SharedKernels } from "./kernels.ts";
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
  readonly group: SentenceGroup;
}

/** Runs groups on other threads. */
export interface GroupRunner {
  /** Requests that are worth having under way at a time. */
  readonly lanes: number;
  /** Pooled vectors, one behind the other; undefined where there are no threads after all. */
  run(request: GroupRequest, signal: AbortSignal | undefined): Promise<Float32Array<ArrayBuffer> | undefined>;
  close(): Promise<void>;
}

/**
 * Makes the thread that got an image able to compute. Of shared memory it takes a slot that nobody has, for as long as it
 * lives. Where memory is not shared, or every slot is taken, it has the weights to itself.
 */
export async function bindImage({ kernel, shape, storage }: EncoderImage): Promise<EncoderThread> {
  const layout = planLayout(shape, kernel);
  if (storage.kind === "shared") {
    const bound = await bindShared(kernel, storage);
    const slot = takeSlot(new Int32Array(bound.buffer, layout.owners, shape.slots));
    if (slot !== undefined) return new EncoderThread(shape, layout, bound, slot);
  }
  const weights =
    storage.kind === "copied" ? storage.weights : new Uint8Array(storage.memory.buffer, 0, layout.weightsEnd);
  const bound = await loadEncoderKernels({ kind: kernel, byteLengthFor: () => layout.byteLength, memory: "private" });
  new Uint8Array(bound.buffer).set(weights);
  return new EncoderThread(shape, layout, bound, 0);
}

/** The first slot is the loading thread's. */
function takeSlot(owners: Int32Array): number | undefined {
  for (let slot = 1; slot < owners.length; slot++) if (Atomics.compareExchange(owners, slot, 0, 1) === 0) return slot;
  return undefined;
}
