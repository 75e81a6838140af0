import { type Location, UnsupportedError } from "../../base/errors.ts";
import type { DType } from "../../model/dtype.ts";
import type { ValueType } from "../../model/metadata.ts";
import { ascii, type Decoded, struct, u32, u64 } from "../../struct/layout.ts";

/**
 * File header, one line per row of docs/formats/gguf.md#file-header. The version is not fixed here: another version is
 * unsupported, not malformed, and `open` has a better message for it.
 */
export const fileHeader = struct("GGUF header", 24, {
  magic: ascii(0, 4).is("GGUF"),
  version: u32(4),
  tensorCount: u64(8),
  metadataKvCount: u64(16),
});
export type FileHeader = Decoded<typeof fileHeader>;

/** Used if `general.alignment` is absent (ggml docs/gguf.md, "general.alignment"). */
export const DEFAULT_ALIGNMENT = 32;
export const ALIGNMENT_KEY = "general.alignment";
/** The keys that describe files, not the model, in the order in which llama-gguf-split writes them. */
export const SPLIT_KEYS = ["split.no", "split.tensors.count", "split.count"] as const;
export const ARCHITECTURE_KEY = "general.architecture";

/** Value type ids (gguf_metadata_value_type); the index is the id. */
export const VALUE_TYPES = [
  "u8",
  "i8",
  "u16",
  "i16",
  "u32",
  "i32",
  "f32",
  "bool",
  "string",
  "array",
  "u64",
  "i64",
  "f64",
] as const satisfies readonly ValueType[];

export const STRING_ID = 8;
export const ARRAY_ID = 9;

/** Bytes of a value by type id; 0 if the length varies. */
export const VALUE_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8] as const;

/** The least bytes that a string (its length) and an array (element type and count) can take. */
export const STRING_MIN_BYTES = 8;
export const ARRAY_MIN_BYTES = 12;
/** key length, value type, one byte of value. */
export const KV_MIN_BYTES = 13;
/** name length, n_dimensions, type, offset. */
export const TENSOR_INFO_MIN_BYTES = 24;

export function valueTypeId(type: ValueType): number | undefined {
  const id = (VALUE_TYPES as readonly ValueType[]).indexOf(type);
  return id < 0 ? undefined : id;
}

/** The least bytes that one element of an array takes; undefined for an unknown type. */
export function minElementBytes(id: number): number | undefined {
  if (id === STRING_ID) return STRING_MIN_BYTES;
  if (id === ARRAY_ID) return ARRAY_MIN_BYTES;
  return VALUE_BYTES[id];
}

/** ggml_type ids (ggml.h as of ggml 0.25); sizes are in model/dtype.ts. */
const TENSOR_TYPES: ReadonlyMap<number, DType> = new Map<number, DType>([
  [0, "F32"],
  [1, "F16"],
  [2, "Q4_0"],
  [3, "Q4_1"],
  [6, "Q5_0"],
  [7, "Q5_1"],
  [8, "Q8_0"],
  [9, "Q8_1"],
  [10, "Q2_K"],
  [11, "Q3_K"],
  [12, "Q4_K"],
  [13, "Q5_K"],
  [14, "Q6_K"],
  [15, "Q8_K"],
  [16, "IQ2_XXS"],
  [17, "IQ2_XS"],
  [18, "IQ3_XXS"],
  [19, "IQ1_S"],
  [20, "IQ4_NL"],
  [21, "IQ3_S"],
  [22, "IQ2_S"],
  [23, "IQ4_XS"],
  [24, "I8"],
  [25, "I16"],
  [26, "I32"],
  [27, "I64"],
  [28, "F64"],
  [29, "IQ1_M"],
  [30, "BF16"],
  [34, "TQ1_0"],
  [35, "TQ2_0"],
  [39, "MXFP4"],
  [40, "NVFP4"],
  [41, "Q1_0"],
  [42, "Q2_0"],
]);

/** Ids that ggml once had and removed; their layouts were never stable (ggml.h, the commented-out rows). */
const REMOVED_TYPES: ReadonlyMap<number, string> = new Map([
  [4, "Q4_2"],
  [5, "Q4_3"],
  [31, "Q4_0_4_4"],
  [32, "Q4_0_4_8"],
  [33, "Q4_0_8_8"],
  [36, "IQ4_NL_4_4"],
  [37, "IQ4_NL_4_8"],
  [38, "IQ4_NL_8_8"],
]);

const TYPE_IDS: ReadonlyMap<DType, number> = new Map([...TENSOR_TYPES].map(([id, dtype]) => [dtype, id]));

/** Undefined for types without a GGUF id. */
export function tensorTypeId(dtype: DType): number | undefined {
  return TYPE_IDS.get(dtype);
}

/** The type of an id. `locate` is called only to refuse one. */
export function tensorType(id: number, name: string, locate: () => Location): DType {
  const dtype = TENSOR_TYPES.get(id);
  if (dtype !== undefined) return dtype;
  const removed = REMOVED_TYPES.get(id);
  if (removed !== undefined) {
    const message = `Cannot read tensor "${name}": ggml removed type ${id} (${removed})`;
    throw new UnsupportedError("unsupported/gguf.removed-type", message, locate(), {
      hint: "Quantise the original model again with a current llama.cpp",
    });
  }
  const message = `Cannot read tensor "${name}": type ${id} must be one of ggml's types 0 to 42`;
  throw new UnsupportedError("unsupported/gguf.tensor-type", message, locate(), {
    hint: "The type is newer than this tool: update tare; or the file is damaged",
  });
}
