import type { Shape } from "../../model/shape.ts";

/** How linear weights are stored: as PyTorch has them, or ready to be multiplied from the left. */
export type Orientation = "out_in" | "in_out";

export interface ShapedTensor {
  readonly name: string;
  readonly shape: Shape;
}

const WEIGHT = /^encoder\..*\.weight$/;
const INTERMEDIATE = /^encoder\.layer\.\d+\.intermediate\.dense\.weight$/;
const WORDS = "embeddings.word_embeddings.weight";

/** What the converter of the stream layout transposes: every matrix of the encoder. */
export function isLinear({ name, shape }: ShapedTensor): boolean {
  return shape.length === 2 && WEIGHT.test(name);
}

/**
 * The orientation, where shapes leave no doubt: a bias is as long as its weight has outputs, and a word vector as long as
 * the intermediate layer has inputs. Undefined where all matrices are square, or where they disagree.
 */
export function detectOrientation(tensors: readonly ShapedTensor[]): Orientation | undefined {
  const shapes = new Map(tensors.map(({ name, shape }) => [name, shape]));
  const hidden = shapes.get(WORDS)?.[1];
  const found = new Set<Orientation>();
  for (const tensor of tensors) {
    if (!isLinear(tensor)) continue;
    const bias = shapes.get(tensor.name.replace(/weight$/, "bias"));
    const byBias = bias?.length === 1 ? orientationFor(tensor.shape, { outputs: bias[0] }) : undefined;
    const isIntermediate = INTERMEDIATE.test(tensor.name);
    const byHidden = isIntermediate ? orientationFor(tensor.shape, { inputs: hidden }) : undefined;
    for (const orientation of [byBias, byHidden]) if (orientation !== undefined) found.add(orientation);
  }
  const [orientation] = found;
  return found.size === 1 ? orientation : undefined;
}

/** A BERT encoder whose feed-forward block is as wide as its vectors. */
export function isSquareEncoder(tensors: readonly ShapedTensor[]): boolean {
  const hidden = tensors.find(({ name }) => name === WORDS)?.shape[1];
  const linear = tensors.filter(isLinear);
  return (
    linear.some(({ name }) => INTERMEDIATE.test(name)) &&
    linear.every(({ shape }) => shape.every((side) => side === hidden))
  );
}

interface Known {
  readonly inputs?: number | undefined;
  readonly outputs?: number | undefined;
}

function orientationFor([first, second]: Shape, { inputs, outputs }: Known): Orientation | undefined {
  if (first === second) return undefined;
  if (first === outputs || second === inputs) return second === outputs || first === inputs ? undefined : "out_in";
  return second === outputs || first === inputs ? "in_out" : undefined;
}
