import type { ReadOptions } from "../bytes/source.ts";
import type { Tensor } from "./tensor.ts";
import { unevenLayout } from "./uneven-layout.ts";
import { UnevenSource } from "./uneven-source.ts";
import { convertToFloat32 } from "./values.ts";

/** All values of a tensor as float32: see `Tensor.toFloat32`. */
export async function tensorValues(tensor: Tensor, options?: ReadOptions): Promise<Float32Array<ArrayBuffer>> {
  const at = { source: tensor.file ?? tensor.name };
  const uneven = unevenLayout(tensor);
  if (uneven === undefined) return convertToFloat32(tensor.dtype, await tensor.bytes(options), at);
  const floats = new UnevenSource(tensor.source(), uneven);
  return convertToFloat32("F32", await floats.read(0, floats.byteLength, { signal: options?.signal }), at);
}
