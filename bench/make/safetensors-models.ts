import { makeSafetensorsFile, type TensorPlan } from "./safetensors-file.ts";

interface Dimensions {
  readonly hidden: number;
  readonly feedForward: number;
}

const LAYERS = 32;
const KEY_VALUE = 512;
const VOCABULARY = 64_000;

/** 2.0 GB in 291 BF16 tensors, from 3 kB norms to a 197 MB embedding. */
export function makeTwoGigabytes(path: string): Promise<void> {
  return makeSafetensorsFile(path, decoder({ hidden: 1536, feedForward: 4096 }), "bytes");
}

/** 4.0 GB in the same 291 tensors, only larger. */
export function makeFourGigabytes(path: string): Promise<void> {
  return makeSafetensorsFile(path, decoder({ hidden: 2048, feedForward: 7168 }), "bytes");
}

/** 100 000 small tensors named like a mixture of experts, which makes such headers large: about 10 MB of JSON. */
export function makeHundredThousand(path: string): Promise<void> {
  const tensors: TensorPlan[] = [];
  const parts = ["gate_proj", "up_proj", "down_proj"];
  for (let index = 0; index < 100_000; index++) {
    const part = parts[index % 3];
    const expert = Math.floor(index / 3) % 512;
    const layer = Math.floor(index / (3 * 512));
    tensors.push({ name: `model.layers.${layer}.mlp.experts.${expert}.${part}.weight`, shape: [16, 8] });
  }
  return makeSafetensorsFile(path, tensors, "holes");
}

function decoder({ hidden, feedForward }: Dimensions): TensorPlan[] {
  const tensors: TensorPlan[] = [{ name: "model.embed_tokens.weight", shape: [VOCABULARY, hidden] }];
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = `model.layers.${layer}.`;
    tensors.push(
      { name: `${name}input_layernorm.weight`, shape: [hidden] },
      { name: `${name}mlp.down_proj.weight`, shape: [hidden, feedForward] },
      { name: `${name}mlp.gate_proj.weight`, shape: [feedForward, hidden] },
      { name: `${name}mlp.up_proj.weight`, shape: [feedForward, hidden] },
      { name: `${name}post_attention_layernorm.weight`, shape: [hidden] },
      { name: `${name}self_attn.k_proj.weight`, shape: [KEY_VALUE, hidden] },
      { name: `${name}self_attn.o_proj.weight`, shape: [hidden, hidden] },
      { name: `${name}self_attn.q_proj.weight`, shape: [hidden, hidden] },
      { name: `${name}self_attn.v_proj.weight`, shape: [KEY_VALUE, hidden] },
    );
  }
  tensors.push({ name: "model.norm.weight", shape: [hidden] }, { name: "lm_head.weight", shape: [VOCABULARY, hidden] });
  return tensors;
}
