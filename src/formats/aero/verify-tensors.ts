import { printable } from "../../base/text.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { AeroModel } from "./aero-model.ts";
import type { Shard } from "./shards.ts";

/** What the index says that opening tolerated: tensors without a shard, and tensors that share a part of their bytes. */
export function* verifyTensors(model: AeroModel): Generator<Finding> {
  yield* verifyPresence(model);
  yield* verifyOverlaps(model);
}

function* verifyPresence({ content, tensors }: AeroModel): Generator<Finding> {
  const { shards } = content.index;
  const broken = new Map<Shard, { count: number; readonly first: Tensor }>();
  for (const [i, tensor] of tensors.entries()) {
    const shard = shards[i];
    if (shard?.problem === undefined) continue;
    const row = broken.get(shard);
    if (row === undefined) broken.set(shard, { count: 1, first: tensor });
    else row.count++;
  }
  // The index file of a set has no shards at all, and is whole without them.
  const severity = content.shards.weights.size === 0 ? "warning" : "error";
  for (const [{ problem }, { count, first }] of broken) {
    if (problem === undefined) continue;
    const finding = findingFromError(problem, severity);
    const others = count === 1 ? "" : ` and ${count - 1} more`;
    yield { ...finding, message: `${finding.message} (tensor "${printable(first.name)}"${others})`, name: first.name };
  }
}

/** Tied tensors share all of their bytes; sharing a part is told once, with the first pair. */
function* verifyOverlaps({ tensors, content }: AeroModel): Generator<Finding> {
  const sorted = tensors.filter((tensor) => tensor.storedByteLength > 0).sort((a, b) => a.offset - b.offset);
  let furthest: Tensor | undefined;
  let pair: readonly [Tensor, Tensor] | undefined;
  let count = 0;
  for (const tensor of sorted) {
    if (furthest !== undefined && endOf(furthest) > tensor.offset && !isSame(furthest, tensor)) {
      pair ??= [furthest, tensor];
      count++;
    }
    if (furthest === undefined || endOf(tensor) > endOf(furthest)) furthest = tensor;
  }
  if (pair === undefined) return;
  const [a, b] = pair;
  const others = count === 1 ? "" : `, and ${count - 1} more`;
  const message = `Tensor "${printable(a.name)}" ends at ${endOf(a)}, behind the beginning of "${printable(b.name)}" at ${b.offset}${others}`;
  const at = { source: content.source.label, offset: b.offset, path: "tensors" };
  yield { severity: "warning", code: "format/aero.tensor-overlap", message, at, name: b.name };
}

function isSame(a: Tensor, b: Tensor): boolean {
  return a.offset === b.offset && a.storedByteLength === b.storedByteLength;
}

function endOf({ offset, storedByteLength }: Tensor): number {
  return offset + storedByteLength;
}
