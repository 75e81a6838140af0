import { httpResolver, openHttp } from "./bytes/http.ts";
import type { Resolver } from "./bytes/resolver.ts";
import type { Embedder, EmbedderOptions } from "./embedding/load-embedder.ts";
import type { Model } from "./model/model.ts";
import { type Input, type OpenInputOptions, openModel } from "./open-input.ts";

export interface LoadEmbedderOptions extends EmbedderOptions, Pick<OpenInputOptions, "engine" | "limits" | "http"> {}

/**
 * An embedder of anything that `open` takes, or of a model that is open already. What was opened here is closed with the
 * embedder. At an address, the files beside the model are found by theirs.
 */
export async function loadEmbedder(input: Input | Model, options: LoadEmbedderOptions = {}): Promise<Embedder> {
  // Tokenizer, encoder and kernels are only for those who embed.
  const { loadEmbedder: loadFromModel } = await import("./embedding/load-embedder.ts");
  if (isModel(input)) return loadFromModel(input, options);
  const { engine, limits, http, signal } = options;
  const own = options.resolver === undefined ? {} : { resolver: options.resolver };
  const model = await openModel(input, { engine, limits, http, signal, ...own });
  const resolver = options.resolver ?? resolverFor(input, options);
  const onClose = async (): Promise<void> => {
    await model.close();
    await options.onClose?.();
  };
  try {
    return await loadFromModel(model, { ...options, resolver, onClose });
  } catch (error) {
    await model.close();
    throw error;
  }
}

function isModel(input: Input | Model): input is Model {
  return typeof input === "object" && "kind" in input && input.kind === "model";
}

/** Siblings of a remote model; undefined for bytes, which have none. */
function resolverFor(input: Input, { http, signal }: LoadEmbedderOptions): Resolver | undefined {
  if (typeof input !== "string" && !(input instanceof URL)) return undefined;
  if (!/^https?:/i.test(String(input))) return undefined;
  const { allowOrigins: _, ...settings } = http ?? {};
  return httpResolver(String(input), (href, { pinned } = {}) => openHttp(href, { ...settings, pinned, signal }));
}
