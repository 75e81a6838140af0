import { canonicalBertName, POSITION_TABLE, TOKEN_TYPE_TABLE } from "../bert/names.ts";
import { type DType, dtypeFacts } from "../dtype.ts";
import type { Metadata, MetadataValue } from "../metadata.ts";
import type { Tensor } from "../tensor.ts";

/** What llama.cpp expects of the types in a GGUF: which tensors stay floats, and what two keys say about the others. */

/**
 * True for tensors that llama.cpp computes with as floats, whatever the model is quantised to: it ends with an assertion
 * where they are blocks. The names are those that llama-quantize passes over (llama-quant.cpp).
 */
export function staysFloat({ name, shape }: Pick<Tensor, "name" | "shape">): boolean {
  return rankOf(shape) < 2 || !name.endsWith("weight") || PARTS.some((part) => name.includes(part)) || isTable(name);
}

/** As ggml counts dimensions: outer ones of 1 do not count. */
function rankOf(shape: readonly number[]): number {
  const first = shape.findIndex((dimension) => dimension !== 1);
  return first < 0 ? 1 : shape.length - first;
}

const PARTS: readonly string[] = [
  "_norm.weight",
  "ffn_gate_inp.weight",
  "ffn_gate_tid2eid.weight",
  "altup",
  "laurel",
  "per_layer_model_proj",
  "ssm_conv1d",
  "shortconv.conv.weight",
  "indexer.k_proj.weight",
  "indexer.q_proj.weight",
  "attn_rel_b.weight",
  // The small matrices of RWKV.
  ...[
    "first",
    "w0",
    "w1",
    "w2",
    "v0",
    "v1",
    "v2",
    "a0",
    "a1",
    "a2",
    "g1",
    "g2",
    "decay_w1",
    "decay_w2",
    "lerp_fused",
  ].map((part) => `time_mix_${part}.weight`),
  // Encoders of images and sound.
  ".position_embd",
  "sam.pos_embd",
  "sam.neck.",
  "sam.net_",
  ".rel_pos",
  ".patch_embd",
  ".patch_merger",
  "a.rvq.codebook",
  "mm.a.code_embd",
];

/** Positions and token types of BERT, under llama.cpp's names or a checkpoint's. */
function isTable(name: string): boolean {
  const canonical = canonicalBertName(name);
  return canonical === POSITION_TABLE || canonical === TOKEN_TYPE_TABLE;
}

export const FILE_TYPE_KEY = "general.file_type";
export const QUANTIZATION_VERSION_KEY = "general.quantization_version";
/** ggml's blocks as they are since 2023 (GGML_QNT_VERSION). */
export const QUANTIZATION_VERSION: MetadataValue = { type: "u32", value: 2 };

/** `llama_ftype` by the type that most weights have; where several mixtures have the same one, the plainest comes first. */
const FILE_TYPES: ReadonlyMap<DType, readonly number[]> = new Map<DType, readonly number[]>([
  ["F32", [0]],
  ["F16", [1]],
  ["BF16", [32]],
  ["Q4_0", [2]],
  ["Q4_1", [3]],
  ["Q8_0", [7]],
  ["Q5_0", [8]],
  ["Q5_1", [9]],
  ["Q2_K", [10, 21]],
  ["Q3_K", [11, 12, 13]],
  ["Q4_K", [14, 15]],
  ["Q5_K", [16, 17]],
  ["Q6_K", [18]],
  ["IQ2_XXS", [19]],
  ["IQ2_XS", [20, 28]],
  ["IQ2_S", [29]],
  ["IQ3_XXS", [23, 22]],
  ["IQ3_S", [26, 22, 27]],
  ["IQ1_S", [24]],
  ["IQ1_M", [31]],
  ["IQ4_NL", [25]],
  ["IQ4_XS", [30]],
  ["TQ1_0", [36]],
  ["TQ2_0", [37]],
  ["MXFP4", [38]],
  ["NVFP4", [39]],
  ["Q1_0", [40]],
  ["Q2_0", [41]],
]);

export function isBlocks(dtype: DType): boolean {
  return dtypeFacts(dtype).layout === "block";
}

/**
 * The metadata with both keys true for `after`, where the tensors of `before` were given other types or left out. What
 * still holds stays as it is: a Q4_K_M of which some tensors are taken is one.
 */
export function withTrueTypes(metadata: Metadata, before: readonly Tensor[], after: readonly Tensor[]): Metadata {
  const gained = gainedTypes(before, after);
  if (gained.length === 0 && mainType(before) === mainType(after)) return metadata;
  // A file is called after its blocks, as llama-quantize does, however much of it was kept as it was.
  const named = gained.some(isBlocks) ? after.filter(({ dtype }) => isBlocks(dtype)) : after;
  const typed = withFileType(metadata, mainType(named));
  return gained.length > 0 && after.some(({ dtype }) => isBlocks(dtype))
    ? typed.with(QUANTIZATION_VERSION_KEY, QUANTIZATION_VERSION)
    : typed;
}

/** A file that did not state its type need not begin to. */
function withFileType(metadata: Metadata, main: DType | undefined): Metadata {
  const stated = metadata.get(FILE_TYPE_KEY);
  const number = metadata.number(FILE_TYPE_KEY);
  if (stated === undefined || number === undefined || main === undefined) return metadata;
  const [plainest, ...mixtures] = FILE_TYPES.get(main) ?? [];
  if (plainest === undefined) return metadata.without(FILE_TYPE_KEY);
  const isTrue = number === plainest || mixtures.includes(number);
  return isTrue ? metadata : metadata.with(FILE_TYPE_KEY, { type: "u32", value: plainest });
}

/** Types that more tensors have than before. */
function gainedTypes(before: readonly Tensor[], after: readonly Tensor[]): readonly DType[] {
  const counts = new Map<DType, number>();
  for (const { dtype } of after) counts.set(dtype, (counts.get(dtype) ?? 0) + 1);
  for (const { dtype } of before) counts.set(dtype, (counts.get(dtype) ?? 0) - 1);
  return [...counts].flatMap(([dtype, count]) => (count > 0 ? [dtype] : []));
}

/** The type of most weights: of the matrices that llama.cpp quantises, or of everything where there is none. */
function mainType(tensors: readonly Tensor[]): DType | undefined {
  const matrices = tensors.filter((tensor) => !staysFloat(tensor));
  const counts = new Map<DType, number>();
  for (const { dtype, elementCount } of matrices.length === 0 ? tensors : matrices) {
    counts.set(dtype, (counts.get(dtype) ?? 0) + elementCount);
  }
  let main: DType | undefined;
  for (const [dtype, count] of counts) if (main === undefined || count > (counts.get(main) ?? 0)) main = dtype;
  return main;
}
