import { type DType, dtypeFacts } from "../../model/dtype.ts";

/**
 * Every dtype of the format, highest rank first: the reference writer sorts tensors by this rank, then by name
 * (safetensors 0.8.0, the reverse of the declaration order of its `Dtype`).
 */
export const SAFETENSORS_DTYPES = [
  "U64",
  "I64",
  "F64",
  "C64",
  "F32",
  "U32",
  "I32",
  "BF16",
  "F16",
  "U16",
  "I16",
  "F8_E5M2FNUZ",
  "F8_E4M3FNUZ",
  "F8_E8M0",
  "F8_E4M3",
  "F8_E5M2",
  "I8",
  "U8",
  "F6_E3M2",
  "F6_E2M3",
  "F4",
  "BOOL",
] as const satisfies readonly DType[];

/** The name of a dtype of this format. */
export type SafetensorsDType = (typeof SAFETENSORS_DTYPES)[number];

/** The facts of a dtype that the header parser and the planner need. */
export interface DTypeRow {
  readonly dtype: SafetensorsDType;
  readonly bits: number;
  /** Place in the reference writer's order; lower comes first. */
  readonly rank: number;
}

const ROWS: ReadonlyMap<string, DTypeRow> = new Map(
  SAFETENSORS_DTYPES.map((dtype, rank) => {
    const facts = dtypeFacts(dtype);
    return [dtype, { dtype, rank, bits: facts.layout === "plain" ? facts.bits : 0 }];
  }),
);

/** Undefined if the format has no such dtype. */
export function dtypeRow(name: string): DTypeRow | undefined {
  return ROWS.get(name);
}
