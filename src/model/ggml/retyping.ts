import { canonicalBertName, POSITION_TABLE, TOKEN_TYPE_TABLE } from "../bert/names.ts";
import { type DType, dtypeFacts } from "../dtype.ts";
import type { ModelContent } from "../format.ts";
import type { Metadata, MetadataValue } from "../metadata.ts";
import type { Tensor } from "../tensor.ts";
import { FILE_TYPE_KEY, FILE_TYPES } from "./file-types.ts";

/**
 * What llama.cpp expects of the types in a GGUF: which tensors stay floats, and what two keys state about the others.
 */

/**
 * True for tensors that llama.cpp always computes with as floats, in any quantisation. If they are blocks, it ends with
 * an assertion. The names are those that llama-quantize skips (llama-quant.cpp).
 */
export function staysFloat({ name, shape }: Pick<Tensor, "name" | "shape">): boolean {
  return rankOf(shape) < 2 || !name.endsWith("weight") || PARTS.some((part) => name.includes(part)) || isTable(name);
}

/** The rank as ggml counts it: outer dimensions of 1 do not count. */
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

export const QUANTIZATION_VERSION_KEY = "general.quantization_version";
/** The version of ggml's blocks since 2023 (GGML_QNT_VERSION). */
export const QUANTIZATION_VERSION = { type: "u32", value: 2 } as const satisfies MetadataValue;

/**
 * The metadata of content whose tensors were `before` and are `after`, for a GGUF or for any content that states these
 * keys.
 */
export function retypedMetadata(
  { metadata, chain }: Pick<ModelContent, "metadata" | "chain">,
  before: readonly Tensor[],
  after: readonly Tensor[],
): Metadata {
  const states = metadata.get(FILE_TYPE_KEY) !== undefined || metadata.get(QUANTIZATION_VERSION_KEY) !== undefined;
  return states || chain.some(({ format }) => format === "gguf") ? withTrueTypes(metadata, before, after) : metadata;
}

export function isBlocks(dtype: DType): boolean {
  return dtypeFacts(dtype).layout === "block";
}

/**
 * The metadata with both keys true for `after`, if tensors of `before` got other types or were left out. A statement
 * that is still true stays: a selection of tensors from a Q4_K_M is still a Q4_K_M.
 */
export function withTrueTypes(metadata: Metadata, before: readonly Tensor[], after: readonly Tensor[]): Metadata {
  const gained = gainedTypes(before, after);
  if (gained.length === 0 && mainType(before) === mainType(after)) return metadata;
  // A file is named after its blocks, as llama-quantize does, even if much of it stayed unquantised.
  const named = gained.some(isBlocks) ? after.filter(({ dtype }) => isBlocks(dtype)) : after;
  const typed = withFileType(metadata, mainType(named));
  if (!after.some(({ dtype }) => isBlocks(dtype))) return withoutOldVersion(typed);
  return gained.length > 0 ? typed.with(QUANTIZATION_VERSION_KEY, QUANTIZATION_VERSION) : typed;
}

/** llama.cpp writes its block version into files without blocks too. Another version describes blocks that are gone. */
function withoutOldVersion(metadata: Metadata): Metadata {
  const isCurrent = metadata.number(QUANTIZATION_VERSION_KEY) === QUANTIZATION_VERSION.value;
  return isCurrent ? metadata : metadata.without(QUANTIZATION_VERSION_KEY);
}

/**
 * A file that did not state its type need not start to. A value that is not a number, such as a text, cannot be
 * trusted.
 */
function withFileType(metadata: Metadata, main: DType | undefined): Metadata {
  if (metadata.get(FILE_TYPE_KEY) === undefined) return metadata;
  const number = metadata.number(FILE_TYPE_KEY);
  const [plainest, ...mixtures] = (main === undefined ? undefined : FILE_TYPES.get(main)) ?? [];
  if (plainest === undefined) return metadata.without(FILE_TYPE_KEY);
  const isTrue = number !== undefined && (number === plainest || mixtures.includes(number));
  return isTrue ? metadata : metadata.with(FILE_TYPE_KEY, { type: "u32", value: plainest });
}

/** Types that more tensors have than before. */
function gainedTypes(before: readonly Tensor[], after: readonly Tensor[]): readonly DType[] {
  const counts = new Map<DType, number>();
  for (const { dtype } of after) counts.set(dtype, (counts.get(dtype) ?? 0) + 1);
  for (const { dtype } of before) counts.set(dtype, (counts.get(dtype) ?? 0) - 1);
  return [...counts].flatMap(([dtype, count]) => (count > 0 ? [dtype] : []));
}

/** The type of most weights: of the matrices that llama.cpp quantises, or of all tensors if there are none. */
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
