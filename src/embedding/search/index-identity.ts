import type { TextEmbedder } from "./embed-corpus.ts";

/** By what it is known whether an index was made by the same model in the same way. */
export interface IndexIdentity {
  /** What was asked of the embedder: the limit of tokens, the mode, whether vectors are normalised. */
  readonly settings: string;
  /** The vector of a sentence that is always the same: every matrix of the model has a part in it. */
  readonly probe: Float32Array<ArrayBuffer>;
}

/** Letters, digits, punctuation and an accent, so that tokenizers that differ are told apart too. */
const PROBE = "The quick brown fox jumps over 1,234 lazy dogs; naïve Ångström?";

/**
 * Kernels of one model agree to about 1e-6 of a unit vector; float16 weights differ from float32 ones by 2e-4, and other
 * models by far more.
 */
const TOLERANCE = 2e-5;

/** Embeds the probe. */
export async function identifyEmbedder(embedder: TextEmbedder, settings: string): Promise<IndexIdentity> {
  const [vector = new Float32Array(embedder.dimension)] = await embedder.embed([PROBE]);
  return { settings, probe: Float32Array.from(vector) };
}

/** Whether vectors of the two can stand side by side. */
export function sameIdentity(a: IndexIdentity, b: IndexIdentity): boolean {
  if (a.settings !== b.settings || a.probe.length !== b.probe.length) return false;
  let scale = 1;
  for (const value of a.probe) scale = Math.max(scale, Math.abs(value));
  return a.probe.every((value, i) => Math.abs(value - (b.probe[i] as number)) <= TOLERANCE * scale);
}
