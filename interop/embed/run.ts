import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { loadEmbedder } from "../../src/platform/node/index.ts";
import { Outcome } from "../outcome.ts";
import { findWeights, installModels, type KnownModel, MODELS } from "./models.ts";
import { type Reference, referenceFor } from "./reference.ts";
import { SENTENCES } from "./sentences.ts";

/**
 * Embeds sentences with real float32 models and compares with onnxruntime on the same ids. Run with: tsx
 * interop/embed/run.ts [--install]
 */

const { values } = parseArgs({ options: { install: { type: "boolean" } } });

const LEAST_COSINE = 0.99999;
const MOST_DIFFERENCE = 1e-5;
/** For weights rounded to eight bits. */
const LEAST_INT8_COSINE = 0.995;

function compare(ours: Float32Array, theirs: Float32Array): { readonly cosine: number; readonly difference: number } {
  let [dot, aa, bb, difference] = [0, 0, 0, 0];
  for (const [i, x] of ours.entries()) {
    const y = theirs[i] as number;
    dot += x * y;
    aa += x * x;
    bb += y * y;
    difference = Math.max(difference, Math.abs(x - y));
  }
  return { cosine: dot / Math.sqrt(aa * bb), difference };
}

async function compareModel(model: KnownModel, weights: string, reference: Reference): Promise<Outcome> {
  const outcome = new Outcome(`${model.name} from ${weights.split("/").at(-1)}`);
  let [worst, largest] = [1, 0];
  for (const precision of ["float", "int8"] as const) {
    const embedder = await loadEmbedder(weights, { precision, maxLength: 512 });
    const batch = SENTENCES.map((text) => embedder.tokenizer.encode(text, 512));
    const vectors = await embedder.embedTokens(batch);
    for (const [i, ids] of batch.entries()) {
      const { cosine, difference } = compare(vectors[i] as Float32Array, await reference.embed(ids));
      const what = `${precision}, sentence ${i} of ${ids.length} tokens`;
      if (precision === "int8") {
        outcome.check(what, cosine >= LEAST_INT8_COSINE ? [] : [`cosine ${cosine}`]);
        continue;
      }
      worst = Math.min(worst, cosine);
      largest = Math.max(largest, difference);
      const isNear = cosine >= LEAST_COSINE && difference <= MOST_DIFFERENCE;
      outcome.check(what, isNear ? [] : [`cosine ${cosine}, largest difference ${difference}`]);
    }
    await embedder.close();
  }
  outcome.note(`float32: cosine at least ${worst.toFixed(9)}, differences up to ${largest.toExponential(1)}`);
  return outcome;
}

if (values.install === true) installModels();
const outcomes: Outcome[] = [];
for (const model of MODELS) {
  const reference = existsSync(model.onnx) ? await referenceFor(model.onnx) : undefined;
  if (reference === undefined) {
    console.log(`${model.name}: nothing was compared; install with: tsx interop/embed/run.ts --install`);
    continue;
  }
  for (const weights of findWeights(model)) outcomes.push(await compareModel(model, weights, reference));
}
for (const outcome of outcomes) outcome.print();
process.exitCode = outcomes.every(({ problems }) => problems.length === 0) ? 0 : 1;
