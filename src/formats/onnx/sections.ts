import { findGaps } from "../../bytes/extents.ts";
import type { Container } from "../../model/container.ts";
import type { Section } from "../../model/format.ts";
import { OnnxModel } from "./onnx-model.ts";

/** Everything between the tensors' data: the graph, and the descriptions that stand before each tensor. */
export function onnxSections(container: Container): readonly Section[] {
  if (!(container instanceof OnnxModel)) return [];
  const [first] = container.parts;
  if (first === undefined) return [];
  const data = container.tensors
    .filter(({ file, storedByteLength }) => file === undefined && storedByteLength > 0)
    .map(({ offset, storedByteLength }) => ({ offset, byteLength: storedByteLength }));
  const gaps = findGaps(data, first.byteLength);
  return gaps.map((gap, i) => ({ name: sectionName(i, gaps.length), kind: "index", part: 0, ...gap }));
}

function sectionName(i: number, count: number): string {
  if (i === 0) return "model and graph";
  return i === count - 1 ? "end of the graph" : "tensor description";
}
