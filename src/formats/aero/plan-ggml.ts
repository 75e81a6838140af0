import type { DType } from "../../model/dtype.ts";

/** ggml_type ids (ggml.h as of ggml 0.25) of the block types; plain types have AERO ids of their own. */
const GGML_IDS: ReadonlyMap<DType, number> = new Map<DType, number>([
  ["Q4_0", 2],
  ["Q4_1", 3],
  ["Q5_0", 6],
  ["Q5_1", 7],
  ["Q8_0", 8],
  ["Q8_1", 9],
  ["Q2_K", 10],
  ["Q3_K", 11],
  ["Q4_K", 12],
  ["Q5_K", 13],
  ["Q6_K", 14],
  ["Q8_K", 15],
  ["IQ2_XXS", 16],
  ["IQ2_XS", 17],
  ["IQ3_XXS", 18],
  ["IQ1_S", 19],
  ["IQ4_NL", 20],
  ["IQ3_S", 21],
  ["IQ2_S", 22],
  ["IQ4_XS", 23],
  ["IQ1_M", 29],
  ["TQ1_0", 34],
  ["TQ2_0", 35],
  ["MXFP4", 39],
  ["NVFP4", 40],
  ["Q1_0", 41],
  ["Q2_0", 42],
]);

/** The last id that the reference's converter has a name for; it calls later ones by their number. */
const LAST_NAMED = 15;

/** How ggml numbers a block type, and how AERO's `quant_descriptors` name it; undefined for other types. */
export function ggmlType(dtype: DType): { readonly id: number; readonly name: string } | undefined {
  const id = GGML_IDS.get(dtype);
  if (id === undefined) return undefined;
  return { id, name: id <= LAST_NAMED ? dtype : `ggml_${id}` };
}
