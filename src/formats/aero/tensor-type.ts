import { isTareError, type Location } from "../../base/errors.ts";
import { byteLengthOf, DTYPES, type DType, isDType, type KnownDType } from "../../model/dtype.ts";
import type { Shape } from "../../model/shape.ts";
import type { MsgpackValue } from "../../primitives/encoding/msgpack-value.ts";
import type { TensorEntry } from "./chunks/tidx.ts";
import { dtypeOf, PACKED_ID } from "./layout.ts";
import { ggmlType } from "./plan-ggml.ts";

/**
 * How shapes and lengths are meant. The reference's GGUF converter keeps GGUF's order of dimensions, innermost first,
 * and counts padding as data; every other writer lists the outermost first.
 */
export type Convention = "row-major" | "gguf";

/** What a tensor is, and how many of its stored bytes are it. */
export interface TensorType {
  readonly dtype: DType;
  readonly shape: Shape;
  /** At most `data_len`, unless the entry is wrong: the caller compares. */
  readonly byteLength: number;
}

/** Padding that other writers of packed data may have taken over from GGUF, whose default alignment is 32. */
const GGUF_PADDING = 32;

const BLOCK_TYPES: ReadonlyMap<number, DType> = new Map(
  (Object.keys(DTYPES) as KnownDType[]).flatMap((dtype) => {
    const ggml = ggmlType(dtype);
    return ggml === undefined ? [] : [[ggml.id, dtype] as const];
  }),
);

/** Throws where shape × dtype overflows. */
export function typeOfEntry(entry: TensorEntry, convention: Convention, at: Location): TensorType {
  const shape = convention === "gguf" && entry.shape.length > 1 ? [...entry.shape].reverse() : entry.shape;
  if (entry.dtype === PACKED_ID) return packedType(entry, shape, convention, at);
  const dtype = dtypeOf(entry.dtype);
  return { dtype, shape, byteLength: byteLengthOf(dtype, shape, at) ?? entry.dataLen };
}

/** Packed data is what `quant_params` says, where the length bears that out; else bytes. */
function packedType(entry: TensorEntry, shape: Shape, convention: Convention, at: Location): TensorType {
  const { dataLen, quantParams } = entry;
  const block = BLOCK_TYPES.get(Number(numberParam(quantParams, "ggml_type") ?? -1));
  if (block !== undefined) {
    const byteLength = lengthOf(block, shape, at);
    const slack = convention === "gguf" ? dataLen : GGUF_PADDING - 1;
    if (byteLength !== undefined && byteLength <= dataLen && dataLen - byteLength <= slack) {
      return { dtype: block, shape, byteLength };
    }
  }
  const named = textParam(quantParams, "dtype");
  if (named !== undefined && isDType(named) && lengthOf(named, shape, at) === dataLen) {
    return { dtype: named, shape, byteLength: dataLen };
  }
  return { dtype: "PACKED", shape, byteLength: dataLen };
}

/** Undefined where the type cannot have that shape, or does not say how long it is. */
function lengthOf(dtype: DType, shape: Shape, at: Location): number | undefined {
  try {
    return byteLengthOf(dtype, shape, at);
  } catch (error) {
    if (isTareError(error)) return undefined; // a row that ends inside a block: then it is something else
    throw error;
  }
}

function param(params: MsgpackValue | undefined, key: string): MsgpackValue | undefined {
  return params?.type === "map" ? params.entries.find(([name]) => name === key)?.[1] : undefined;
}

function numberParam(params: MsgpackValue | undefined, key: string): number | bigint | undefined {
  const value = param(params, key);
  return value?.type === "integer" ? value.value : undefined;
}

function textParam(params: MsgpackValue | undefined, key: string): string | undefined {
  const value = param(params, key);
  return value?.type === "string" ? value.value : undefined;
}
