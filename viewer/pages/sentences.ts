import { UsageError } from "../../src/base/errors.ts";
import { CutTexts, type Embedder, loadEmbedder } from "../../src/embedding/embedder.ts";
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

/** An embedder, and what it had to assume. Its own notes also count the texts of earlier calls. */
interface Loaded {
  readonly embedder: Embedder;
  readonly notes: readonly string[];
}

/** Weights are packed once per model. */
const embedders = new WeakMap<Target, Promise<Loaded>>();

/** The similarity of each sentence to each other one. */
export async function similarities(
  target: Target,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<SimilarityMatrix> {
  const { embedder, notes } = await embedderOf(target);
  const started = performance.now();
  const vectors = await embedder.embed(texts, { signal });
  const milliseconds = performance.now() - started;
  const count = vectors.length;
  const cosines = new Float32Array(count * count);
  for (const [i, a] of vectors.entries()) {
    for (const [j, b] of vectors.entries()) cosines[i * count + j] = cosineSimilarity(a, b);
  }
  const cut = new CutTexts(embedder.maxTokens);
  for (const text of texts) cut.encode(text, embedder.tokenizer);
  return { cosines, count, dimension: embedder.dimension, notes: [...notes, ...cut.notes], milliseconds };
}

function embedderOf(target: Target): Promise<Loaded> {
  const known = embedders.get(target);
  if (known !== undefined) return known;
  const container = target.opened?.container;
  if (container?.kind !== "model") {
    throw new UsageError("usage/not-a-model", "Cannot embed: this is no model", { source: target.label });
  }
  const loading = loadEmbedder(container, { resolver: target.resolver }).then((embedder) => {
    return { embedder, notes: embedder.notes };
  });
  embedders.set(target, loading);
  // A failure may be temporary, such as a server that was not reachable.
  loading.catch(() => embedders.delete(target));
  return loading;
}
