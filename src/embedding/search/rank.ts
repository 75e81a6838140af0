import { UsageError } from "../../base/errors.ts";
import { vectorNorm } from "../vectors.ts";

/** One answer of a search. */
export interface Match {
  /** The number of the vector in the table. */
  readonly index: number;
  /** Cosine similarity to the query. */
  readonly score: number;
}

/**
 * The `top` vectors nearest to the query by cosine, nearest first; equal ones in the order of the table. A vector of
 * zeros has the score 0; one that holds NaN is never an answer.
 */
export function rankVectors(query: Float32Array, table: VectorTable, top: number): Match[] {
  const norm = vectorNorm(query);
  const best: Match[] = [];
  let worst = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < table.count && top > 0; index++) {
    const score = scoreAt(table, index, query) / (norm === 0 ? 1 : norm);
    if (!(score > worst)) continue;
    insert(best, { index, score: Math.max(-1, Math.min(1, score)) }, top);
    if (best.length === top) worst = best[top - 1]?.score ?? worst;
  }
  return best;
}

/**
 * The vectors nearest to the query by cosine, nearest first; all of them without `top`. Equal ones keep their order. A
 * vector of zeros has the score 0; one that holds NaN is never an answer.
 *
 * @example
 * const [query, ...others] = (await embed("minilm", ["a small cat", "a kitten", "income tax"])).vectors;
 * for (const { index, score } of rank(query, others)) console.log(index, score);
 */
export function rank(query: Float32Array, vectors: readonly Float32Array[], top?: number): Match[] {
  if (top !== undefined && !(Number.isSafeInteger(top) && top >= 0)) {
    const message = `Cannot rank: top must be a whole number >= 0, found ${String(top)}`;
    throw new UsageError("usage/option-value", message, { source: "rank", path: "top" });
  }
  const wrong = vectors.find(({ length }) => length !== query.length);
  if (wrong !== undefined) {
    const message = `Cannot compare vectors: must have one length, found ${query.length} and ${wrong.length}`;
    throw new UsageError("usage/vector.length", message, { source: "vectors" });
  }
  const norm = vectorNorm(query);
  const matches: Match[] = [];
  for (const [index, vector] of vectors.entries()) {
    const score = scoreOf(vector, 0, query) / (norm === 0 ? 1 : norm);
    if (!Number.isNaN(score)) matches.push({ index, score: Math.max(-1, Math.min(1, score)) });
  }
  return matches.sort((a, b) => b.score - a.score).slice(0, top);
}

function scoreAt({ values, dimension }: VectorTable, index: number, query: Float32Array): number {
  return scoreOf(values, index * dimension, query);
}

/** Dot product with the vector at `start`, divided by its length, in one pass over the memory. */
function scoreOf(values: Float32Array, start: number, query: Float32Array): number {
  let dot = 0;
  let square = 0;
  for (let i = 0; i < query.length; i++) {
    const value = values[start + i] as number;
    dot += value * (query[i] as number);
    square += value * value;
  }
  return square === 0 ? 0 : dot / Math.sqrt(square);
}

/** Keeps only a few, so shifting them is cheaper than a heap. */
function insert(best: Match[], match: Match, top: number): void {
  let low = 0;
  let high = best.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((best[middle] as Match).score >= match.score) low = middle + 1;
    else high = middle;
  }
  best.splice(low, 0, match);
  if (best.length > top) best.pop();
}

/** Vectors of one dimension, one after the other in one buffer. */
export class VectorTable {
  readonly dimension: number;
  readonly count: number;
  /** `count` × `dimension` values. */
  readonly values: Float32Array<ArrayBuffer>;

  constructor(dimension: number, values: Float32Array<ArrayBuffer>) {
    this.dimension = dimension;
    this.values = values;
    this.count = dimension === 0 ? 0 : values.length / dimension;
  }

  /** Room for `count` vectors of zeros. */
  static allocate(dimension: number, count: number): VectorTable {
    return new VectorTable(dimension, new Float32Array(dimension * count));
  }

  /** A view: writing to it writes to the table. */
  row(index: number): Float32Array<ArrayBuffer> {
    return this.values.subarray(index * this.dimension, (index + 1) * this.dimension);
  }
}
