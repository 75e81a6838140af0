import { UsageError } from "../../src/base/errors.ts";
import { type Embedder, loadEmbedder } from "../../src/embedding/embedder.ts";
import { cosineSimilarity } from "../../src/embedding/vectors.ts";
import type { Target } from "../reader/open-targets.ts";

export interface SimilarityMatrix {
  /** Row by row, one for each pair. */
  readonly cosines: Float32Array;
  readonly count: number;
  readonly dimension: number;
  readonly notes: readonly string[];
  readonly milliseconds: number;
}

/** Weights are packed once for each model. */
const embedders = new WeakMap<Target, Promise<Embedder>>();

/** How near each sentence is to each other one. */
export async function similarities(
  target: Target,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<SimilarityMatrix> {
  const embedder = await embedderOf(target);
  const started = performance.now();
  const vectors = await embedder.embed(texts, { signal });
  const milliseconds = performance.now() - started;
  const count = vectors.length;
  const cosines = new Float32Array(count * count);
  for (const [i, a] of vectors.entries()) {
    for (const [j, b] of vectors.entries()) cosines[i * count + j] = cosineSimilarity(a, b);
  }
  return { cosines, count, dimension: embedder.dimension, notes: embedder.notes, milliseconds };
}

function embedderOf(target: Target): Promise<Embedder> {
  const known = embedders.get(target);
  if (known !== undefined) return known;
  const container = target.opened?.container;
  if (container?.kind !== "model") {
    throw new UsageError("usage/not-a-model", "Cannot embed: this is no model", { source: target.label });
  }
  const loading = loadEmbedder(container, { resolver: target.resolver });
  embedders.set(target, loading);
  // What failed may work the next time: a server that was away.
  loading.catch(() => embedders.delete(target));
  return loading;
}
