import { LazySource } from "../../bytes/lazy-source.ts";
import type { TensorReader } from "../../model/tensor.ts";
import type { HashedTensor, HashedTensorReader } from "./hashed-tensor.ts";

/** Reads a tensor that has a digest of its own; what checks it is loaded by the first read, as listing needs none of it. */
export function hashedReader(hashed: HashedTensor): TensorReader {
  let loading: Promise<HashedTensorReader> | undefined;
  const load = (): Promise<HashedTensorReader> => {
    loading ??= loadReader(hashed).catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
  return {
    source: (tensor) =>
      new LazySource({
        label: hashed.stored.label,
        byteLength: tensor.byteLength,
        open: async () => (await load()).source(tensor),
      }),
  };
}

async function loadReader(hashed: HashedTensor): Promise<HashedTensorReader> {
  const { HashedTensorReader } = await import("./hashed-tensor.ts");
  return new HashedTensorReader(hashed);
}
