import { type Bytes, equalBytes } from "../base/bytes.ts";
import type { DType } from "../model/dtype.ts";
import type { Model } from "../model/model.ts";
import { equalShapes, type Shape } from "../model/shape.ts";
import type { Tensor } from "../model/tensor.ts";
import { hasNumbers } from "../model/values/numbers.ts";
import { mapTensors } from "./map-tensors.ts";
import { compareMetadata, type MetadataChange } from "./metadata-diff.ts";
import { readPieces } from "./read-values.ts";
import { type Delta, measureDelta } from "./tensor-delta.ts";

export type { Delta } from "./tensor-delta.ts";

export interface TensorChange {
  readonly name: string;
  /** What differs: "dtype", "shape", "data". */
  readonly what: readonly ("dtype" | "shape" | "data")[];
  readonly a: { readonly dtype: DType; readonly shape: Shape };
  readonly b: { readonly dtype: DType; readonly shape: Shape };
  /** With `stats`, where both sides have numbers and the same shape. */
  readonly delta?: Delta;
}

export interface DiffReport {
  /** Tensors, and metadata too where that was asked for. */
  readonly equal: boolean;
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly TensorChange[];
  readonly unchanged: number;
  readonly metadata: readonly MetadataChange[];
}

export interface DiffOptions {
  /** Measures how far changed tensors are apart. */
  readonly stats?: "stats" | undefined;
  /** Values that differ by no more than this are equal. */
  readonly tolerance?: number | undefined;
  /** Metadata differences count for `equal`. */
  readonly metadata?: "metadata" | undefined;
  readonly concurrency?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** Compares by name, across formats: bytes where the types agree, values where a tolerance or statistics need them. */
export async function diff(a: Model, b: Model, options: DiffOptions = {}): Promise<DiffReport> {
  const inA = new Map(a.tensors.map((tensor) => [tensor.name, tensor]));
  const inB = new Map(b.tensors.map((tensor) => [tensor.name, tensor]));
  const added = b.tensors.filter((tensor) => !inA.has(tensor.name)).map((tensor) => tensor.name);
  const removed = a.tensors.filter((tensor) => !inB.has(tensor.name)).map((tensor) => tensor.name);
  const shared = a.tensors.filter((tensor) => inB.has(tensor.name));
  const together = { concurrency: options.concurrency ?? 2, signal: options.signal };
  const compared = await mapTensors(shared, together, (tensor) => {
    return compareTensors(tensor, inB.get(tensor.name) as Tensor, options);
  });
  const changed = compared.filter((change): change is TensorChange => change !== undefined);
  const metadata = compareMetadata(a.metadata, b.metadata);
  const tensorsEqual = added.length + removed.length + changed.length === 0;
  const equal = tensorsEqual && (options.metadata === undefined || metadata.length === 0);
  return { equal, added, removed, changed, unchanged: shared.length - changed.length, metadata };
}

async function compareTensors(a: Tensor, b: Tensor, options: DiffOptions): Promise<TensorChange | undefined> {
  const sameType = a.dtype === b.dtype;
  const sameShape = equalShapes(a.shape, b.shape);
  const change = (what: TensorChange["what"], delta?: Delta): TensorChange => ({
    name: a.name,
    what,
    a: { dtype: a.dtype, shape: a.shape },
    b: { dtype: b.dtype, shape: b.shape },
    ...(delta === undefined ? {} : { delta }),
  });
  if (sameType && sameShape && (await sameBytes(a, b, options))) return undefined;
  const what: ("dtype" | "shape" | "data")[] = [];
  if (!sameType) what.push("dtype");
  if (!sameShape) what.push("shape");
  const comparable = sameShape && hasNumbers(a.dtype) && hasNumbers(b.dtype);
  const wanted = options.stats !== undefined || options.tolerance !== undefined;
  const delta = comparable && wanted ? await measureDelta(a, b, options) : undefined;
  if (delta !== undefined && options.tolerance !== undefined && delta.maxAbs <= options.tolerance) return undefined;
  // Different types with equal values are a change of type only.
  if (sameType ? sameShape : delta !== undefined && delta.differing > 0) what.push("data");
  return change(what, options.stats === undefined ? undefined : delta);
}

async function sameBytes(a: Tensor, b: Tensor, options: DiffOptions): Promise<boolean> {
  if (a.byteLength !== b.byteLength) return false;
  const other = readPieces(b, { signal: options.signal })[Symbol.asyncIterator]();
  for await (const piece of readPieces(a, options)) {
    const { value } = await other.next();
    if (value === undefined || !equalRuns(piece, value)) {
      await other.return(undefined);
      return false;
    }
  }
  return true;
}

/** Eight bytes at a time where both runs are aligned: these are the bytes of whole models. */
function equalRuns(a: Bytes, b: Bytes): boolean {
  if (a.byteLength !== b.byteLength) return false;
  const words = a.byteLength >> 3;
  if (a.byteOffset % 8 !== 0 || b.byteOffset % 8 !== 0) return equalBytes(a, b);
  const x = new Float64Array(a.buffer, a.byteOffset, words);
  const y = new Float64Array(b.buffer, b.byteOffset, words);
  const xBits = new Int32Array(x.buffer, x.byteOffset, words * 2);
  const yBits = new Int32Array(y.buffer, y.byteOffset, words * 2);
  for (let i = 0; i < xBits.length; i++) if (xBits[i] !== yBits[i]) return false;
  return equalBytes(a.subarray(words * 8), b.subarray(words * 8));
}
