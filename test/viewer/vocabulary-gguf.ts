import type { Bytes } from "../../src/base/bytes.ts";
import { array, buildGguf, text, u32 } from "../builders/gguf.ts";

/** A GGUF file with so many tokens, called "token-0" and on. */
export function vocabularyGguf(tokens: number): Bytes {
  const names = Array.from({ length: tokens }, (_, i) => text(`token-${i}`));
  return buildGguf({
    kvs: [
      { key: "general.architecture", type: 8, value: text("llama") },
      { key: "llama.block_count", type: 4, value: u32(1) },
      { key: "tokenizer.ggml.tokens", type: 9, value: array(8, names) },
    ],
    tensors: [{ name: "blk.0.attn_norm.weight", dims: [4], type: 0, offset: 0 }],
    data: new Uint8Array(16),
  });
}
