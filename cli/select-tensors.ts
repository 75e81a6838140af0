import { UsageError } from "../src/base/errors.ts";
import { printable } from "../src/base/text.ts";
import type { Tensor } from "../src/model/tensor.ts";
import { matchGlob } from "../src/operations/select.ts";

export interface SelectOptions<T> {
  /** What an item can be asked for by: its name, and for files also the directories that it lies in. */
  readonly namesOf: (item: T) => readonly string[];
  readonly what: "tensor" | "entry";
  readonly label: string;
}

/**
 * The items that any glob matches, all of them where there is none; every glob must match something. A name that is spelled
 * out counts too, whatever it would mean as a glob.
 */
export function selectByName<T>(
  items: readonly T[],
  globs: readonly string[],
  { namesOf, what, label }: SelectOptions<T>,
): readonly T[] {
  if (globs.length === 0) return items;
  const idle = new Set(globs);
  const selected = items.filter((item) => {
    const matching = globs.filter((glob) => namesOf(item).some((name) => name === glob || matchGlob(glob, name)));
    for (const glob of matching) idle.delete(glob);
    return matching.length > 0;
  });
  if (idle.size === 0) return selected;
  const shown = [...idle].map((glob) => `"${printable(glob)}"`).join(", ");
  const code = what === "tensor" ? "usage/tensor-not-found" : "usage/entry-not-found";
  const message = `Cannot find ${what === "tensor" ? "a tensor" : "an entry"} that matches ${shown}`;
  const hint = "Quote the pattern so that the shell leaves it alone; * crosses dots and slashes";
  throw new UsageError(code, message, { source: label }, { hint });
}

/** Globs over the paths of a vault, where slashes at the ends say nothing: listings put one behind directories. */
export function entryGlobs(globs: readonly string[]): readonly string[] {
  return globs.map((glob) => glob.replace(/^\/+|\/+$/g, ""));
}

export function selectTensors(tensors: readonly Tensor[], globs: readonly string[], label: string): readonly Tensor[] {
  return selectByName(tensors, globs, { namesOf: ({ name }) => [name], what: "tensor", label });
}
