import type { Embedder, EmbedderOptions } from "./embedding/embedder.ts";
import type { Model } from "./model/model.ts";
import { type Input, type OpenInputOptions, openWithSiblings, requireModel } from "./open.ts";

export interface LoadEmbedderOptions
  extends EmbedderOptions,
    Pick<OpenInputOptions, "engine" | "limits" | "http" | "password"> {}

/**
 * An embedder of anything that `open` takes, or of a model that is open already. What was opened here is closed with the
 * embedder. At an address or inside a vault, the files beside the model are found there too.
 */
export async function loadEmbedder(input: Input | Model, options: LoadEmbedderOptions = {}): Promise<Embedder> {
  // Tokenizer, encoder and kernels are only for those who embed.
  const { loadEmbedder: loadFromModel } = await import("./embedding/embedder.ts");
  if (isModel(input)) return loadFromModel(input, options);
  const { engine, limits, http, password, signal } = options;
  const own = options.resolver === undefined ? {} : { resolver: options.resolver };
  const { container, siblings } = await openWithSiblings(input, { engine, limits, http, password, signal, ...own });
  const onClose = async (): Promise<void> => {
    await container.close();
    await options.onClose?.();
  };
  try {
    const resolver = options.resolver ?? siblings;
    return await loadFromModel(requireModel(container), { ...options, resolver, onClose });
  } catch (error) {
    await container.close();
    throw error;
  }
}

function isModel(input: Input | Model): input is Model {
  return typeof input === "object" && "kind" in input && input.kind === "model";
}
