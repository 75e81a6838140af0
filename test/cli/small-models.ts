import type { Bytes } from "../../src/base/bytes.ts";
import { buildGguf, text, u32 } from "../builders/gguf.ts";
import { buildSafetensors, patternBytes } from "../builders/safetensors.ts";

/** Little-endian float32. */
export function floats(...values: number[]): Bytes {
  return new Uint8Array(Float32Array.from(values).buffer);
}

/** Four tensors in the order and rendering of the reference writer, so that a rewrite is byte-identical. */
export function smallSafetensors(): Bytes {
  return buildSafetensors(
    [
      { name: "model.norm.weight", dtype: "F32", shape: [4], bytes: floats(1, -2, 0, 0.5) },
      {
        name: "model.layers.0.mlp.weight",
        dtype: "BF16",
        shape: [2, 3],
        bytes: Uint8Array.of(0x80, 0x3f, 0, 0xc0, 0, 0, 0, 0x3f, 0x80, 0x40, 0xc0, 0x40),
      },
      {
        name: "model.embed_tokens.weight",
        dtype: "F16",
        shape: [4, 2],
        bytes: Uint8Array.from({ length: 16 }, (_, i) => (i % 2 ? 0x3c : 0)),
      },
      { name: "层.权重", dtype: "I8", shape: [5], bytes: Uint8Array.of(1, 2, 3, 254, 255) },
    ],
    { metadata: { format: "pt" } },
  );
}

export function nanSafetensors(): Bytes {
  return buildSafetensors([
    { name: "w", dtype: "F32", shape: [3], bytes: floats(1, Number.NaN, Number.POSITIVE_INFINITY) },
  ]);
}

/** One F32 tensor of two rows, with llama.cpp's keys. */
export function smallGguf(): Bytes {
  return buildGguf({
    kvs: [
      { key: "general.architecture", type: 8, value: text("llama") },
      { key: "llama.block_count", type: 4, value: u32(1) },
    ],
    tensors: [{ name: "blk.0.attn_norm.weight", dims: [4, 2], type: 0, offset: 0 }],
    data: floats(1, 2, 3, 4, 5, 6, 7, 8),
  });
}

/** Many tensors with long names: a listing that no pipe holds at once. */
export function manyTensors(count: number): Bytes {
  const one = patternBytes(1);
  return buildSafetensors(
    Array.from({ length: count }, (_, i) => ({
      name: `model.layers.${i}.self_attn.q_proj.weight`,
      dtype: "U8",
      shape: [1],
      bytes: one,
    })),
  );
}
