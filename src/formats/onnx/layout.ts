import type { DType } from "../../model/dtype.ts";

/** Field numbers of ModelProto and OperatorSetIdProto (onnx.proto). */
export const MODEL = {
  irVersion: 1,
  producerName: 2,
  producerVersion: 3,
  domain: 4,
  modelVersion: 5,
  docString: 6,
  graph: 7,
  opsetImport: 8,
  metadataProps: 14,
  trainingInfo: 20,
  functions: 25,
} as const;

/** The lists that hold values one by one, by the name of their field. */
export type TypedField = "float_data" | "int32_data" | "int64_data" | "double_data" | "uint64_data";

/**
 * The meaning of a data_type: its name here, its width, and the list that holds its values if they are not raw bytes.
 */
export interface DataType {
  readonly dtype: DType;
  readonly bits: number;
  readonly typed: TypedField | undefined;
}

const type = (dtype: DType, bits: number, typed?: TypedField): DataType => ({ dtype, bits, typed });

/** TensorProto.DataType (onnx.proto); 8 is a string, which has no width. Types that only ONNX has keep their number. */
const DATA_TYPES: ReadonlyMap<number, DataType> = new Map([
  [1, type("F32", 32, "float_data")],
  [2, type("U8", 8, "int32_data")],
  [3, type("I8", 8, "int32_data")],
  [4, type("U16", 16, "int32_data")],
  [5, type("I16", 16, "int32_data")],
  [6, type("I32", 32, "int32_data")],
  [7, type("I64", 64, "int64_data")],
  [9, type("BOOL", 8, "int32_data")],
  [10, type("F16", 16, "int32_data")],
  [11, type("F64", 64, "double_data")],
  [12, type("U32", 32, "uint64_data")],
  [13, type("U64", 64, "uint64_data")],
  [14, type("C64", 64, "float_data")],
  [15, type("UNKNOWN_15", 128, "double_data")], // two float64
  [16, type("BF16", 16, "int32_data")],
  [17, type("F8_E4M3", 8, "int32_data")],
  [18, type("F8_E4M3FNUZ", 8, "int32_data")],
  [19, type("F8_E5M2", 8, "int32_data")],
  [20, type("F8_E5M2FNUZ", 8, "int32_data")],
  [21, type("UNKNOWN_21", 4)], // uint4, two in a byte
  [22, type("UNKNOWN_22", 4)], // int4
  [23, type("UNKNOWN_23", 4)], // float4e2m1; F4 here must fill whole bytes
  [24, type("F8_E8M0", 8, "int32_data")],
  [25, type("UNKNOWN_25", 2)], // uint2
  [26, type("UNKNOWN_26", 2)], // int2
]);

export function dataTypeOf(id: number): DataType | undefined {
  return DATA_TYPES.get(id);
}

/** The ids of values that nodes hold without a TensorProto. */
export const FLOAT_TYPE = 1;
export const INT64_TYPE = 7;
/** The id of strings. */
export const STRING_TYPE = 8;
