import type { Container } from "../src/model/archive.ts";
import type { Tensor } from "../src/model/tensor.ts";
import { matchesAny } from "../src/operations/select.ts";
import { plural } from "./render/sizes.ts";

/**
 * A note where tensors were read without being compared with anything, in a format that can tell: what is written from
 * them gets digests of its own, which would make damage look sound. Asked after reading, when parts are open.
 */
export function unverifiedNotes(container: Container, tensors: readonly Tensor[]): string[] {
  if (container.kind !== "model" || container.verificationOf === undefined) return [];
  const { length } = tensors.filter(
    (tensor) => tensor.byteLength > 0 && container.verificationOf?.(tensor) === "unverified",
  );
  if (length === 0) return [];
  const [taken, own] =
    length === 1 ? ["1 tensor was", "it or its"] : [`${plural(length, "tensor")} were`, "them or their"];
  return [`${taken} taken unverified: the input has no digests of ${own} pages; check it with: tare verify`];
}

/** The tensors that `--include` and `--exclude` leave, by the names that the input has. */
export function takenTensors(
  container: Container,
  selection: { readonly include?: readonly string[] | undefined; readonly exclude?: readonly string[] | undefined },
): readonly Tensor[] {
  if (container.kind !== "model") return [];
  const { include = [], exclude = [] } = selection;
  if (include.length + exclude.length === 0) return container.tensors;
  return container.tensors.filter(
    ({ name }) => matchesAny(include, name) && (exclude.length === 0 || !matchesAny(exclude, name)),
  );
}
