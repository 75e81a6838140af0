import type { Tensor } from "./tensor.ts";

/**
 * The tensors under the names that `nameOf` gives; where it gives none, a tensor keeps its own. Where two could have one
 * name, the one that has it already keeps it, or the first that gets it.
 */
export function renamedTensors(
  tensors: readonly Tensor[],
  nameOf: (name: string) => string | undefined,
): readonly Tensor[] {
  const taken = new Set(tensors.map(({ name }) => name));
  return tensors.map((tensor) => {
    const name = nameOf(tensor.name);
    if (name === undefined || taken.has(name)) return tensor;
    taken.add(name);
    return tensor.with({ name });
  });
}
