import { memorySource } from "../../src/bytes/memory.ts";
import type { ModelContent } from "../../src/model/format.ts";
import { Metadata, stringValue } from "../../src/model/metadata.ts";
import { Tensor } from "../../src/model/tensor.ts";
import { encodeFloats, type FloatTarget } from "../../src/model/values/casts.ts";

/** Small enough to make in an instant, shaped like real transformers. */
const LAYERS = 4;
const WIDTH = 128;
const KEY_VALUE_WIDTH = 64;
const FEED_FORWARD = 704;
const VOCABULARY = 512;

interface Spec {
  readonly name: string;
  readonly dtype: FloatTarget;
  readonly shape: readonly number[];
}

/** A toy transformer with the names of Hugging Face's Llama; the same bytes every time. */
export function makeDemoModel(): ModelContent {
  const random = seededNormal(0x7a_2e);
  const metadata = new Metadata([
    { key: "architecture", value: stringValue("llama") },
    { key: "format", value: stringValue("pt") },
    { key: "license", value: stringValue("CC0-1.0") },
    { key: "name", value: stringValue("tare demo") },
  ]);
  return { metadata, tensors: tensorSpecs().map((spec) => makeTensor(spec, random)), chain: [] };
}

function tensorSpecs(): Spec[] {
  const layers = Array.from({ length: LAYERS }, (_, i) => layerSpecs(`model.layers.${i}`)).flat();
  return [
    { name: "model.embed_tokens.weight", dtype: "BF16", shape: [VOCABULARY, WIDTH] },
    ...layers,
    { name: "model.norm.weight", dtype: "F32", shape: [WIDTH] },
    { name: "lm_head.weight", dtype: "BF16", shape: [VOCABULARY, WIDTH] },
  ];
}

function layerSpecs(prefix: string): Spec[] {
  const matrix = (name: string, rows: number, columns: number): Spec => {
    return { name: `${prefix}.${name}.weight`, dtype: "F16", shape: [rows, columns] };
  };
  const norm = (name: string): Spec => ({ name: `${prefix}.${name}.weight`, dtype: "F32", shape: [WIDTH] });
  return [
    norm("input_layernorm"),
    matrix("self_attn.q_proj", WIDTH, WIDTH),
    matrix("self_attn.k_proj", KEY_VALUE_WIDTH, WIDTH),
    matrix("self_attn.v_proj", KEY_VALUE_WIDTH, WIDTH),
    matrix("self_attn.o_proj", WIDTH, WIDTH),
    norm("post_attention_layernorm"),
    matrix("mlp.gate_proj", FEED_FORWARD, WIDTH),
    matrix("mlp.up_proj", FEED_FORWARD, WIDTH),
    matrix("mlp.down_proj", WIDTH, FEED_FORWARD),
  ];
}

/** Norms are around 1, matrices around 0 with the spread of a usual initialisation. */
function makeTensor({ name, dtype, shape }: Spec, random: () => number): Tensor {
  const values = new Float32Array(shape.reduce((product, dimension) => product * dimension, 1));
  const isNorm = shape.length === 1;
  for (let i = 0; i < values.length; i++) values[i] = isNorm ? 1 + 0.05 * random() : 0.02 * random();
  const source = memorySource(encodeFloats(values, dtype), name);
  return new Tensor({ name, dtype, shape, byteLength: source.byteLength, offset: 0 }, { source: () => source });
}

/** Standard normal values: mulberry32 for the bits, Box-Muller for the distribution. */
function seededNormal(seed: number): () => number {
  let state = seed;
  const uniform = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}
