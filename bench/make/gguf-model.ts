import { open } from "node:fs/promises";
import { GGML_F16, GGML_F32, GgufHeader, type TensorInfo } from "./gguf-header.ts";
import { Keystream, writeFully } from "./keystream.ts";
import { makeMerges, makeTokens, makeTokenTypes, TOKEN_COUNT } from "./vocabulary.ts";

const ALIGNMENT = 32; // GGUF's default if general.alignment is absent
const LAYERS = 12;
const HIDDEN = 1536;
const KEY_VALUE = 512;
const FEED_FORWARD = 6144;

/** "holes" leaves the tensors unwritten, for jobs that only read the header; "bytes" fills them. */
export type TensorContent = "holes" | "bytes";

/**
 * A Llama-like F16 model of about 1.2 GB with the vocabulary of Llama 3: 110 tensors, 32 keys, a header of about 9 MB.
 */
export async function makeGgufModel(path: string, content: TensorContent): Promise<void> {
  const { tensors, byteLength } = layOut();
  const header = new GgufHeader(tensors.length, KEY_COUNT);
  writeGeneralKeys(header);
  writeModelKeys(header);
  writeTokenizerKeys(header);
  for (const tensor of tensors) header.tensor(tensor);
  const bytes = header.bytes();
  const dataOffset = align(bytes.length);
  const file = await open(path, "w");
  try {
    await writeFully(file, bytes, 0);
    await file.truncate(dataOffset + byteLength);
    if (content === "bytes") {
      const stream = new Keystream();
      // Padding between tensors stays zero, as the format requires.
      for (const tensor of tensors) await stream.write(file, dataOffset + tensor.offset, tensorBytes(tensor));
    }
  } finally {
    await file.close();
  }
}

function layOut(): { tensors: TensorInfo[]; byteLength: number } {
  const tensors: TensorInfo[] = [];
  let offset = 0;
  const add = (name: string, type: number, ...shape: number[]) => {
    const tensor = { name, shape, type, offset };
    tensors.push(tensor);
    offset = align(offset + tensorBytes(tensor));
  };
  add("token_embd.weight", GGML_F16, HIDDEN, TOKEN_COUNT);
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = `blk.${layer}.`;
    add(`${name}attn_norm.weight`, GGML_F32, HIDDEN);
    add(`${name}attn_q.weight`, GGML_F16, HIDDEN, HIDDEN);
    add(`${name}attn_k.weight`, GGML_F16, HIDDEN, KEY_VALUE);
    add(`${name}attn_v.weight`, GGML_F16, HIDDEN, KEY_VALUE);
    add(`${name}attn_output.weight`, GGML_F16, HIDDEN, HIDDEN);
    add(`${name}ffn_norm.weight`, GGML_F32, HIDDEN);
    add(`${name}ffn_gate.weight`, GGML_F16, HIDDEN, FEED_FORWARD);
    add(`${name}ffn_up.weight`, GGML_F16, HIDDEN, FEED_FORWARD);
    add(`${name}ffn_down.weight`, GGML_F16, FEED_FORWARD, HIDDEN);
  }
  add("output_norm.weight", GGML_F32, HIDDEN);
  return { tensors, byteLength: offset };
}

function tensorBytes(tensor: TensorInfo): number {
  return tensor.shape.reduce((product, dimension) => product * dimension, tensor.type === GGML_F32 ? 4 : 2);
}

function align(offset: number): number {
  return Math.ceil(offset / ALIGNMENT) * ALIGNMENT;
}

/** The number of keys written below. The header states it before them. */
const KEY_COUNT = 32;

function writeGeneralKeys(header: GgufHeader): void {
  header.string("general.architecture", "llama");
  header.string("general.type", "model");
  header.string("general.name", "Bench 0.6B Instruct");
  header.string("general.finetune", "Instruct");
  header.string("general.basename", "Bench");
  header.string("general.size_label", "0.6B");
  header.string("general.license", "apache-2.0");
  header.strings("general.tags", ["text-generation", "pytorch", "bench"]);
  header.strings("general.languages", ["en", "de", "fr", "it", "pt", "hi", "es", "th"]);
  header.uint32("general.file_type", 1); // LLAMA_FTYPE_MOSTLY_F16
  header.uint32("general.quantization_version", 2);
}

function writeModelKeys(header: GgufHeader): void {
  header.uint32("llama.block_count", LAYERS);
  header.uint32("llama.context_length", 131_072);
  header.uint32("llama.embedding_length", HIDDEN);
  header.uint32("llama.feed_forward_length", FEED_FORWARD);
  header.uint32("llama.attention.head_count", 24);
  header.uint32("llama.attention.head_count_kv", 8);
  header.uint32("llama.attention.key_length", 64);
  header.uint32("llama.attention.value_length", 64);
  header.float32("llama.attention.layer_norm_rms_epsilon", 1e-5);
  header.float32("llama.rope.freq_base", 500_000);
  header.uint32("llama.rope.dimension_count", 64);
  header.uint32("llama.vocab_size", TOKEN_COUNT);
}

function writeTokenizerKeys(header: GgufHeader): void {
  header.string("tokenizer.ggml.model", "gpt2");
  header.string("tokenizer.ggml.pre", "llama-bpe");
  header.strings("tokenizer.ggml.tokens", makeTokens());
  header.int32s("tokenizer.ggml.token_type", makeTokenTypes());
  header.strings("tokenizer.ggml.merges", makeMerges());
  header.uint32("tokenizer.ggml.bos_token_id", 128_000);
  header.uint32("tokenizer.ggml.eos_token_id", 128_009);
  header.bool("tokenizer.ggml.add_bos_token", true);
  header.string(
    "tokenizer.chat_template",
    "{% for message in messages %}{{ message.role }}: {{ message.content }}{% endfor %}\n".repeat(40),
  );
}
