import { createCipheriv } from "node:crypto";
import { open } from "node:fs/promises";
import { GGML_F32, GgufHeader, type TensorInfo } from "./gguf-header.ts";
import { writeFully } from "./keystream.ts";

const LAYERS = 10;
const HIDDEN = 1024;
const KEY_VALUE = 256;
const FEED_FORWARD = 4096;
const TOKENS = 2048;
const PIECE = 1 << 20;

/** A Llama-like GGUF of about 600 MB, all F32, as input for a quantiser. It has no vocabulary. */
export async function makeFloatModel(path: string): Promise<void> {
  const tensors: TensorInfo[] = [];
  let end = 0;
  const add = (name: string, ...shape: number[]): void => {
    tensors.push({ name, shape, type: GGML_F32, offset: end });
    end += shape.reduce((product, dimension) => product * dimension, 4);
  };
  add("token_embd.weight", HIDDEN, TOKENS);
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = `blk.${layer}.`;
    add(`${name}attn_norm.weight`, HIDDEN);
    add(`${name}attn_q.weight`, HIDDEN, HIDDEN);
    add(`${name}attn_k.weight`, HIDDEN, KEY_VALUE);
    add(`${name}attn_v.weight`, HIDDEN, KEY_VALUE);
    add(`${name}attn_output.weight`, HIDDEN, HIDDEN);
    add(`${name}ffn_norm.weight`, HIDDEN);
    add(`${name}ffn_gate.weight`, HIDDEN, FEED_FORWARD);
    add(`${name}ffn_up.weight`, HIDDEN, FEED_FORWARD);
    add(`${name}ffn_down.weight`, FEED_FORWARD, HIDDEN);
  }
  add("output_norm.weight", HIDDEN);
  add("output.weight", HIDDEN, TOKENS);
  const header = headerOf(tensors);
  const dataOffset = Math.ceil(header.length / 32) * 32;
  const file = await open(path, "w");
  try {
    await writeFully(file, header, 0);
    await file.truncate(dataOffset + end);
    const noise = createCipheriv("aes-128-ctr", Buffer.alloc(16, 3), Buffer.alloc(16));
    for (let at = 0; at < end; at += 4 * PIECE) {
      const count = Math.min(PIECE, (end - at) / 4);
      const random = new Uint16Array(new Uint8Array(noise.update(Buffer.alloc(4 * count))).buffer);
      const floats = new Float32Array(count);
      // The sum of two uniform numbers: most weights are small, a few large, none beyond 0.1.
      for (let i = 0; i < count; i++)
        floats[i] = ((random[2 * i] as number) + (random[2 * i + 1] as number) - 65535) / 655350;
      await writeFully(file, new Uint8Array(floats.buffer), dataOffset + at);
    }
  } finally {
    await file.close();
  }
}

function headerOf(tensors: readonly TensorInfo[]): Uint8Array {
  const header = new GgufHeader(tensors.length, 11);
  header.string("general.architecture", "llama");
  header.string("general.name", "Bench");
  header.uint32("general.file_type", 0); // LLAMA_FTYPE_ALL_F32
  header.uint32("llama.block_count", LAYERS);
  header.uint32("llama.context_length", 2048);
  header.uint32("llama.embedding_length", HIDDEN);
  header.uint32("llama.feed_forward_length", FEED_FORWARD);
  header.uint32("llama.attention.head_count", 16);
  header.uint32("llama.attention.head_count_kv", 4);
  header.float32("llama.attention.layer_norm_rms_epsilon", 1e-5);
  header.uint32("llama.vocab_size", TOKENS);
  for (const tensor of tensors) header.tensor(tensor);
  return header.bytes();
}
