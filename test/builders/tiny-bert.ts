import type { Bytes } from "../../src/base/bytes.ts";
import type { BertConfig } from "../../src/model/bert/config.ts";
import type { BertModel } from "../../src/model/bert/model.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import { encodeFloats } from "../../src/model/values/casts.ts";
import { memoryTensor } from "./tensors.ts";

export const TINY_BERT: BertConfig = {
  hidden: 16,
  layers: 2,
  heads: 2,
  intermediate: 24,
  positions: 40,
  vocabularySize: 30,
  tokenTypes: 2,
  epsilon: 1e-12,
  activation: "gelu",
  pooling: "mean",
  normalize: "l2",
  maxTokens: 40,
  lowerCase: "lower",
};

export interface TinyBert extends BertModel {
  /** The exact values behind `tensor`, by canonical name. */
  readonly values: ReadonlyMap<string, Float32Array>;
}

/** A BERT of any shape with weights that are the same every time. Linear weights have the type asked for. */
export function tinyBert(change: Partial<BertConfig> = {}, dtype: "F32" | "F16" | "BF16" | "I8" = "F32"): TinyBert {
  const config = { ...TINY_BERT, ...change };
  const tensors = new Map<string, Tensor>();
  const values = new Map<string, Float32Array>();
  let seed = 1;
  const random = (): number => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32 - 0.5;
  };
  for (const [name, shape] of shapesOf(config)) {
    const count = shape.reduce((product, side) => product * side, 1);
    const isGain = name.endsWith("LayerNorm.weight");
    const spread = shape.length === 2 ? 2 / Math.sqrt(shape[1] ?? 1) : 0.2;
    const floats = Float32Array.from({ length: count }, () => random() * spread + (isGain ? 1 : 0));
    const own = shape.length === 2 ? dtype : "F32";
    const stored = own === "I8" ? storeBytes(floats, shape[0] ?? 1) : storeFloats(floats, own);
    tensors.set(name, memoryTensor(name, own, shape, stored.bytes));
    values.set(name, stored.values);
    if (stored.scales !== undefined) {
      const scale = `${name}.scale`;
      tensors.set(scale, memoryTensor(scale, "F32", [shape[0] ?? 1], encodeFloats(stored.scales, "F32")));
    }
  }
  const tensor = (name: string): Tensor => {
    const found = tensors.get(name);
    if (found === undefined) throw new Error(`no tensor ${name}`);
    return found;
  };
  return { config, vocabulary: undefined, notes: [], values, tensor, has: (name) => tensors.has(name) };
}

function* shapesOf(config: BertConfig): Generator<readonly [string, readonly number[]]> {
  const { hidden, intermediate, positions, vocabularySize, tokenTypes, layers } = config;
  yield ["embeddings.word_embeddings.weight", [vocabularySize, hidden]];
  yield ["embeddings.position_embeddings.weight", [positions, hidden]];
  yield ["embeddings.token_type_embeddings.weight", [tokenTypes, hidden]];
  yield* pair("embeddings.LayerNorm", [hidden]);
  for (let layer = 0; layer < layers; layer++) {
    const prefix = `encoder.layer.${layer}.`;
    for (const part of ["query", "key", "value"]) yield* pair(`${prefix}attention.self.${part}`, [hidden, hidden]);
    yield* pair(`${prefix}attention.output.dense`, [hidden, hidden]);
    yield* pair(`${prefix}attention.output.LayerNorm`, [hidden]);
    yield* pair(`${prefix}intermediate.dense`, [intermediate, hidden]);
    yield* pair(`${prefix}output.dense`, [hidden, intermediate]);
    yield* pair(`${prefix}output.LayerNorm`, [hidden]);
  }
}

function* pair(name: string, shape: readonly number[]): Generator<readonly [string, readonly number[]]> {
  yield [`${name}.weight`, shape];
  yield [`${name}.bias`, [shape[0] ?? 0]];
}

interface Stored {
  readonly bytes: Bytes;
  /** What a reader gets back. */
  readonly values: Float32Array;
  readonly scales?: Float32Array<ArrayBuffer>;
}

function storeFloats(floats: Float32Array<ArrayBuffer>, dtype: "F32" | "F16" | "BF16"): Stored {
  const bits = new Uint32Array(floats.buffer);
  // Values that every type holds: eight bits of mantissa, none of them tiny.
  for (let i = 0; i < bits.length; i++) bits[i] = (bits[i] as number) & 0xffff0000;
  return { bytes: encodeFloats(floats, dtype), values: floats };
}

function storeBytes(floats: Float32Array, rows: number): Stored {
  const width = floats.length / rows;
  const scales = new Float32Array(rows);
  const bytes = new Int8Array(floats.length);
  const values = new Float32Array(floats.length);
  for (let row = 0; row < rows; row++) {
    const own = floats.subarray(row * width, (row + 1) * width);
    const scale = Math.fround(Math.max(...own.map(Math.abs)) / 127);
    scales[row] = scale;
    own.forEach((value, i) => {
      bytes[row * width + i] = Math.round(value / scale);
      values[row * width + i] = (bytes[row * width + i] as number) * scale;
    });
  }
  return { bytes: new Uint8Array(bytes.buffer), values, scales };
}
