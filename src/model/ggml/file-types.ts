import type { DType } from "../dtype.ts";
import type { Metadata } from "../metadata.ts";

/** The numbers by which llama.cpp says what most of a file is stored as: their types and their names. */

export const FILE_TYPE_KEY = "general.file_type";

/** `llama_ftype` by the type of most weights. If several mixtures have the same type, the plainest comes first. */
export const FILE_TYPES: ReadonlyMap<DType, readonly number[]> = new Map<DType, readonly number[]>([
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

/** The names of `llama_ftype`, by number, as llama.cpp's tools and file names have them (llama.h). */
const LABELS: readonly (string | undefined)[] = [
  ...["F32", "F16", "Q4_0", "Q4_1", "Q4_1_SOME_F16", "Q4_2", "Q4_3", "Q8_0", "Q5_0", "Q5_1"],
  ...["Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K"],
  ...["IQ2_XXS", "IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ3_M", "IQ2_S", "IQ2_M"],
  ...["IQ4_XS", "IQ1_M", "BF16", "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0", "MXFP4_MOE", "NVFP4"],
  ...["Q1_0", "Q2_0"],
];
/** LLAMA_FTYPE_GUESSED: the type was not stated, but found by looking at the tensors. */
const GUESSED = 1024;

/** How people call the quantisation that the metadata states: "Q4_K_M". Undefined if it states none that is known. */
export function fileTypeLabel(metadata: Metadata): string | undefined {
  // Formats whose metadata is text have the number as its digits.
  const text = metadata.text(FILE_TYPE_KEY);
  const number =
    text === undefined ? metadata.number(FILE_TYPE_KEY) : /^\d{1,4}$/.test(text) ? Number(text) : undefined;
  return number === undefined ? undefined : LABELS[number >= GUESSED ? number - GUESSED : number];
}
