import type { Bytes } from "../../base/bytes.ts";
import type { BertModel } from "../../model/bert/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import { convertToFloat32 } from "../../model/values/numbers.ts";

type Floats = Float32Array<ArrayBuffer>;

/** A tensor's values, with the scales of an I8 one worked in. */
export async function readFloats(bert: BertModel, name: string, signal?: AbortSignal): Promise<Floats> {
  const tensor = bert.tensor(name);
  const values = await tensor.toFloat32({ signal });
  const scales = await readScales(bert, name, signal);
  if (scales !== undefined) scaleRows(values, scales, tensor.shape[0] ?? 1);
  return values;
}

/** One scale, or one a row; undefined for a tensor that has none. */
export async function readScales(bert: BertModel, name: string, signal?: AbortSignal): Promise<Floats | undefined> {
  const scale = `${name}.scale`;
  return bert.tensor(name).dtype === "I8" && bert.has(scale) ? bert.tensor(scale).toFloat32({ signal }) : undefined;
}

/** Bytes of a tensor as floats. */
export function floatsOf(tensor: Tensor, bytes: Bytes): Floats {
  return convertToFloat32(tensor.dtype, bytes, { source: tensor.file ?? tensor.name });
}

/** In place; `first` is the number of the first row that `values` holds. */
export function scaleRows(values: Floats, scales: Floats, rows: number, first = 0): void {
  const width = values.length / Math.max(1, rows);
  for (let row = 0; row < rows; row++) {
    const scale = scales[scales.length === 1 ? 0 : first + row] as number;
    for (let i = row * width; i < (row + 1) * width; i++) values[i] = (values[i] as number) * scale;
  }
}
