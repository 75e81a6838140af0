import type { Model } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import { Loader } from "../../operations/reading/loader.ts";
import { prefetch as prefetchTensors } from "../../operations/reading/prefetch.ts";
import {
  type StreamTensorsOptions,
  streamTensors as streamAll,
  type TensorPiece,
} from "../../operations/reading/stream-tensors.ts";
import { COMMON_RULES, checkOptions, choiceRule, type Size, sizeIn, sizeRule } from "../options.ts";

/** Reading the tensors of a model that is open, many of them or step by step. */

const { signal } = COMMON_RULES;

export interface LoaderOptions {
  /** Most bytes of tensors that the loader holds or is reading at any time; 64 MiB if absent. */
  readonly maxBytes?: Size | undefined;
  /** Ends every read of the loader. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Loads a model step by step: metadata and index on demand, tensors one by one. `open` is called once, on the first
 * use. The bytes that the loader holds and reads stay within `maxBytes`, for any size of file. `await using` closes it.
 *
 * @example
 * await using loader = createLoader(() => openModel("https://models.example/model.safetensors"));
 * await loader.prefetch(["model.norm.weight"]);
 * const values = await loader.loadFloat32("model.norm.weight");
 */
export function createLoader(open: () => Promise<Model>, options: LoaderOptions = {}): Loader {
  checkOptions("createLoader", options, { maxBytes: sizeRule, signal });
  return new Loader(open, { ...options, maxBytes: sizeIn(options.maxBytes) });
}

export interface PrefetchOptions {
  /** Most bytes of all the tensors together; 256 MiB if absent. */
  readonly maxBytes?: Size | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads the named tensors together: neighbours share requests, distant ones are requested at the same time. The tensors
 * in the result have their bytes in memory.
 *
 * @example
 * const tensors = await prefetch(model, ["model.norm.weight", "model.embed_tokens.weight"]);
 * const values = await tensors.get("model.norm.weight")?.toFloat32();
 */
export async function prefetch(
  model: Model,
  names: Iterable<string>,
  options: PrefetchOptions = {},
): Promise<ReadonlyMap<string, Tensor>> {
  checkOptions("prefetch", options, { maxBytes: sizeRule, signal });
  options.signal?.throwIfAborted();
  return prefetchTensors(model, names, { ...options, maxBytes: sizeIn(options.maxBytes) });
}

const listOfTensors = { must: "a list of tensors", test: Array.isArray };

/**
 * Every tensor's bytes in one pass, in the order of the files, checked like any read, in bounded memory: the way to read
 * a whole model.
 *
 * @example
 * for await (const { tensor, offset, bytes } of streamTensors(model)) console.log(tensor.name, offset, bytes.byteLength);
 */
export function streamTensors(model: Model, options: StreamTensorsOptions = {}): AsyncGenerator<TensorPiece> {
  checkOptions("streamTensors", options, { tensors: listOfTensors, order: choiceRule("files", "any"), signal });
  return streamAll(model, options);
}
