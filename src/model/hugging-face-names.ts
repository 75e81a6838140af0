import { canonicalBertName, namesBert, POSITION_TABLE } from "./bert/names.ts";
import { renamedTensors } from "./renamed-tensors.ts";
import type { Tensor } from "./tensor.ts";

/** llama.cpp's names of what a decoder has once, without ".weight" and ".bias". */
const WHOLE: ReadonlyMap<string, string> = new Map([
  ["token_embd", "model.embed_tokens"],
  ["output_norm", "model.norm"],
  ["output", "lm_head"],
]);

/** What it calls the parts of "blk.N.", which are "model.layers.N." in checkpoints of Llama, Mistral, Qwen and Gemma. */
const LAYER: ReadonlyMap<string, string> = new Map([
  ["attn_q", "self_attn.q_proj"],
  ["attn_k", "self_attn.k_proj"],
  ["attn_v", "self_attn.v_proj"],
  ["attn_output", "self_attn.o_proj"],
  ["attn_q_norm", "self_attn.q_norm"],
  ["attn_k_norm", "self_attn.k_norm"],
  ["attn_norm", "input_layernorm"],
  ["ffn_norm", "post_attention_layernorm"],
  ["ffn_gate", "mlp.gate_proj"],
  ["ffn_up", "mlp.up_proj"],
  ["ffn_down", "mlp.down_proj"],
]);

/**
 * The tensors under the names that Hugging Face's checkpoints have; a name that is not known stays. Only names change: for
 * "llama" models llama.cpp has put the rows of attn_q and attn_k in an order of its own, which no name tells.
 */
export function huggingFaceNames(tensors: readonly Tensor[]): readonly Tensor[] {
  const bert = new Set(tensors.map(({ name }) => canonicalBertName(name)).filter((name) => name !== undefined));
  // llama.cpp has the same names for both kinds; a decoder has no table of positions.
  const isBert = namesBert(bert) && bert.has(POSITION_TABLE);
  return renamedTensors(tensors, isBert ? canonicalBertName : decoderName);
}

function decoderName(name: string): string | undefined {
  const match = /^(?:blk\.(0|[1-9][0-9]{0,3})\.)?([a-z_]+)\.(weight|bias)$/.exec(name);
  if (match === null) return undefined;
  const [, layer, part = "", kind] = match;
  const known = layer === undefined ? WHOLE.get(part) : LAYER.get(part);
  if (known === undefined) return undefined;
  return layer === undefined ? `${known}.${kind}` : `model.layers.${layer}.${known}.${kind}`;
}
