import { bertTensorNames } from "../../src/model/bert/names.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import { float32Tensor } from "./tensors.ts";

/** Dimensions of a BERT encoder for tests; small and all different, so that nothing fits by accident. */
export interface TinyBert {
  readonly hidden: number;
  readonly intermediate: number;
  readonly layers: number;
  readonly positions: number;
  readonly vocabulary: number;
  readonly tokenTypes: number;
}

export const TINY: TinyBert = { hidden: 8, intermediate: 12, layers: 2, positions: 6, vocabulary: 10, tokenTypes: 2 };

/** The shape that the specification's table gives a tensor. */
export function tinyShape(name: string, tiny: TinyBert = TINY): number[] {
  const { hidden, intermediate } = tiny;
  if (name.includes("word_embeddings")) return [tiny.vocabulary, hidden];
  if (name.includes("position_embeddings")) return [tiny.positions, hidden];
  if (name.includes("token_type")) return [tiny.tokenTypes, hidden];
  if (name.endsWith("intermediate.dense.weight")) return [intermediate, hidden];
  if (name.endsWith("intermediate.dense.bias")) return [intermediate];
  if (name.endsWith(".bias") || name.includes("LayerNorm")) return [hidden];
  return /\d\.output\.dense/.test(name) ? [hidden, intermediate] : [hidden, hidden];
}

/** Values that differ from tensor to tensor and from place to place, between -1 and 1. */
export function tinyValues(name: string, count: number): number[] {
  let seed = 7;
  for (const character of name) seed = (Math.imul(seed, 31) + character.charCodeAt(0)) >>> 0;
  return Array.from({ length: count }, (_, i) => {
    const mixed = Math.imul(seed + i, 0x9e3779b1) ^ (seed >>> 3);
    return ((mixed >>> 8) & 0xffff) / 0x8000 - 1;
  });
}

/** All tensors of an encoder under canonical names, as F32. */
export function tinyBert(tiny: TinyBert = TINY): Tensor[] {
  return bertTensorNames(tiny.layers).map((name) => {
    const shape = tinyShape(name, tiny);
    const count = shape.reduce((product, dimension) => product * dimension, 1);
    return float32Tensor(name, tinyValues(name, count), shape);
  });
}

/** A vocabulary of `TINY.vocabulary` tokens. */
export const TINY_TOKENS: readonly string[] = [
  "[PAD]",
  "[UNK]",
  "[CLS]",
  "[SEP]",
  "[MASK]",
  "hello",
  "world",
  "##ing",
  "[",
  "##s",
];
