import { Tensor } from "./tensor.ts";
import { unevenLayout } from "./uneven-layout.ts";
import { UnevenSource } from "./uneven-source.ts";

/**
 * The same values as float32 where the stored ones are not one run of whole blocks; the tensor itself otherwise. What
 * works on values piece by piece takes this first.
 */
export function evenTensor(tensor: Tensor): Tensor {
  const layout = unevenLayout(tensor);
  if (layout === undefined) return tensor;
  const { name, shape, offset, storedByteLength, file, elementCount } = tensor;
  const facts = { name, dtype: "F32" as const, shape, byteLength: 4 * elementCount, offset, storedByteLength, file };
  return new Tensor(facts, { source: () => new UnevenSource(tensor.source(), layout) });
}
