import { Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../metadata.ts";
import type { Tensor } from "../tensor.ts";
import { transposedTensor } from "../values/transposed.ts";
import { dequantizedTensor, isSymmetric, type Quantization } from "./quantized-tensor.ts";

/**
 * What an ONNX graph tells about initialisers whose own name or form does not tell it. The metadata entry under this
 * key maps each initialiser's name to a map of the facts below. It travels with the tensors, so that they can be
 * corrected after a conversion too.
 */
export const ONNX_WEIGHTS_KEY = "onnx.weights";

/** Facts of one initialiser. */
export interface OnnxWeight {
  /** The name in the exported model: "encoder.layer.0.output.dense.weight". */
  readonly name: string;
  /** "in_out" if a linear layer's matrix is stored transposed, compared with the model. */
  readonly layout: "in_out" | "as_is";
  /** Initialisers that turn its integers into floats; absent if it holds floats itself. */
  readonly scale?: string | undefined;
  readonly zeroPoint?: string | undefined;
  /** The dimension that the scales run along. */
  readonly axis?: number | undefined;
}

/** The facts as a metadata entry. */
export function onnxWeightsEntry(weights: ReadonlyMap<string, OnnxWeight>): MetadataEntry {
  const entries = [...weights].map(([key, weight]): MetadataEntry => {
    const facts: MetadataEntry[] = [
      { key: "name", value: stringValue(weight.name) },
      { key: "layout", value: stringValue(weight.layout) },
    ];
    if (weight.scale !== undefined) facts.push({ key: "scale", value: stringValue(weight.scale) });
    if (weight.zeroPoint !== undefined) facts.push({ key: "zero_point", value: stringValue(weight.zeroPoint) });
    if (weight.axis !== undefined) facts.push({ key: "axis", value: { type: "u32", value: weight.axis } });
    return { key, value: { type: "map", entries: facts } };
  });
  return { key: ONNX_WEIGHTS_KEY, value: { type: "map", entries } };
}

function parseOnnxWeight(value: MetadataValue): OnnxWeight | undefined {
  if (value.type !== "map") return undefined;
  const facts = new Metadata(value.entries);
  const name = facts.text("name");
  if (name === undefined) return undefined;
  return {
    name,
    layout: facts.text("layout") === "in_out" ? "in_out" : "as_is",
    scale: facts.text("scale"),
    zeroPoint: facts.text("zero_point"),
    axis: facts.number("axis"),
  };
}

/** The facts in a model's metadata; empty if it was not an ONNX graph. */
export function onnxWeightsOf(metadata: Metadata): ReadonlyMap<string, OnnxWeight> {
  const value = metadata.get(ONNX_WEIGHTS_KEY);
  const weights = new Map<string, OnnxWeight>();
  for (const entry of value?.type === "map" ? value.entries : []) {
    const weight = parseOnnxWeight(entry.value);
    if (weight !== undefined) weights.set(entry.key, weight);
  }
  return weights;
}

/**
 * The tensors as the exported model had them: under their own names, linear weights as [out, in]. Quantised ones keep
 * their integers, with `<name>.scale` and, if it is not all zero, `<name>.zero_point`. They become F32 if the scales
 * run along another dimension than the rows. Reads only zero points.
 */
export async function restoreOnnxWeights(
  tensors: readonly Tensor[],
  metadata: Metadata,
  signal?: AbortSignal | undefined,
): Promise<readonly Tensor[]> {
  const weights = onnxWeightsOf(metadata);
  if (weights.size === 0) return tensors;
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const used = new Set<string>();
  const restored: Tensor[] = [];
  for (const tensor of tensors) {
    const weight = weights.get(tensor.name);
    const renamed = weight === undefined ? tensor : tensor.with({ name: weight.name });
    const quantization = weight === undefined ? undefined : quantizationOf(weight, byName);
    if (weight === undefined) restored.push(tensor);
    else if (quantization === undefined) restored.push(turned(renamed, weight));
    else restored.push(...(await decoded(renamed, { weight, quantization, signal })));
    for (const name of quantization === undefined ? [] : [weight?.scale, weight?.zeroPoint]) {
      if (name !== undefined) used.add(name);
    }
  }
  return restored.filter(({ name }) => !used.has(name));
}

function turned(tensor: Tensor, weight: OnnxWeight): Tensor {
  return weight.layout === "in_out" && tensor.shape.length === 2 ? transposedTensor(tensor) : tensor;
}

function quantizationOf(weight: OnnxWeight, byName: ReadonlyMap<string, Tensor>): Quantization | undefined {
  const scale = weight.scale === undefined ? undefined : byName.get(weight.scale);
  if (scale === undefined) return undefined;
  const zeroPoint = weight.zeroPoint === undefined ? undefined : byName.get(weight.zeroPoint);
  return { scale, zeroPoint, axis: weight.axis ?? 0 };
}

interface Decoding {
  readonly weight: OnnxWeight;
  readonly quantization: Quantization;
  readonly signal: AbortSignal | undefined;
}

/** Integers with one scale for all or one per row stay integers; others become the floats they encode. */
async function decoded(tensor: Tensor, { weight, quantization, signal }: Decoding): Promise<readonly Tensor[]> {
  const { scale, zeroPoint, axis } = quantization;
  const rowAxis = weight.layout === "in_out" ? 1 : 0;
  const isRows = [scale, ...(zeroPoint === undefined ? [] : [zeroPoint])].every(
    ({ elementCount }) => elementCount === 1 || (axis === rowAxis && elementCount === tensor.shape[rowAxis]),
  );
  const isKept = /^[IU]8$/.test(tensor.dtype) && scale.dtype === "F32" && tensor.shape.length === 2 && isRows;
  if (!isKept) return [turned(dequantizedTensor(tensor, quantization), weight)];
  const companions = [companion(scale, `${weight.name}.scale`)];
  if (zeroPoint !== undefined && !(await isSymmetric(quantization, signal))) {
    companions.push(companion(zeroPoint, `${weight.name}.zero_point`));
  }
  return [turned(tensor, weight), ...companions];
}

function companion(tensor: Tensor, name: string): Tensor {
  return tensor.with({ name, shape: [tensor.elementCount] });
}
