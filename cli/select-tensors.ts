import { UsageError } from "../src/base/errors.ts";
import type { Tensor } from "../src/model/tensor.ts";
import { matchesAny } from "../src/operations/select.ts";

/** The items whose names match any glob, all of them where there is none; a glob that matches nothing is refused. */
export function selectByName<T>(
  items: readonly T[],
  globs: readonly string[],
  options: { readonly nameOf: (item: T) => string; readonly what: "tensor" | "entry"; readonly label: string },
): readonly T[] {
  if (globs.length === 0) return items;
  const selected = items.filter((item) => matchesAny(globs, options.nameOf(item)));
  if (selected.length > 0) return selected;
  const shown = globs.map((glob) => `"${glob}"`).join(", ");
  const code = options.what === "tensor" ? "usage/tensor-not-found" : "usage/entry-not-found";
  throw new UsageError(
    code,
    `Cannot find a ${options.what} that matches ${shown}`,
    { source: options.label },
    {
      hint: "Quote the pattern so that the shell leaves it alone; * crosses dots and slashes",
    },
  );
}

export function selectTensors(tensors: readonly Tensor[], globs: readonly string[], label: string): readonly Tensor[] {
  return selectByName(tensors, globs, { nameOf: (tensor) => tensor.name, what: "tensor", label });
}
