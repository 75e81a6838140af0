import { createHash } from "node:crypto";
import type { MetadataEntry, MetadataValue } from "../src/model/metadata.ts";
import type { Model } from "../src/model/model.ts";
import { requireModel } from "../src/open.ts";
import { nodeEngine } from "../src/platform/node/engine/engine.ts";
import { openTarget } from "../src/platform/node/targets.ts";

/** One tensor, as both sides describe it. */
export interface TensorFact {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly sha256: string;
}

export type Text = string | readonly Text[];

/** What a model holds; interop/facts.py writes the same. */
export interface ModelFacts {
  readonly tensors: readonly TensorFact[];
  readonly metadata: readonly (readonly [key: string, type: string, value: Text])[];
}

/** The facts of a file or set as tare reads it. */
export async function readFacts(path: string): Promise<ModelFacts> {
  const opened = await openTarget(path, { engine: await nodeEngine() });
  try {
    const model = requireModel(opened.container);
    return { tensors: await tensorFacts(model), metadata: model.metadata.entries.map(entryFact) };
  } finally {
    await opened.close();
  }
}

async function tensorFacts(model: Model): Promise<TensorFact[]> {
  const facts: TensorFact[] = [];
  for (const tensor of model.tensors) {
    const { name, dtype, shape } = tensor;
    const sha256 = createHash("sha256")
      .update(await tensor.bytes())
      .digest("hex");
    facts.push({ name, dtype, shape, sha256 });
  }
  return facts;
}

function entryFact({ key, value }: MetadataEntry): readonly [string, string, Text] {
  return [key, value.type, textOf(value)];
}

/** Integers as digits, floats as the bits of a double, so that nothing is rounded on the way. */
function textOf(value: MetadataValue): Text {
  if (value.type === "array") return value.slice().map(textOf);
  if (value.type === "f32" || value.type === "f64") return doubleBits(value.value);
  return "value" in value ? String(value.value) : value.type;
}

function doubleBits(value: number): string {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return bytes.toString("hex");
}

/** The differences between two models, in words; tensors and keys are compared by name. */
export function compareFacts(found: ModelFacts, wanted: ModelFacts, compare: readonly (keyof TensorFact)[]): string[] {
  const differences: string[] = [];
  const tensors = new Map(found.tensors.map((tensor) => [tensor.name, tensor]));
  if (found.tensors.length !== wanted.tensors.length) {
    differences.push(`${wanted.tensors.length} tensors expected, found ${found.tensors.length}`);
  }
  for (const tensor of wanted.tensors) {
    const other = tensors.get(tensor.name);
    for (const field of compare) {
      const [a, b] = [JSON.stringify(other?.[field]), JSON.stringify(tensor[field])];
      if (a !== b) differences.push(`${JSON.stringify(tensor.name)}: ${field} must be ${b}, found ${a}`);
    }
  }
  return differences;
}

/** The same for metadata; keys that match `ignore` are left out on both sides. */
export function compareMetadata(found: ModelFacts, wanted: ModelFacts, ignore: RegExp): string[] {
  const list = ({ metadata }: ModelFacts): Map<string, string> =>
    new Map(metadata.filter(([key]) => !ignore.test(key)).map(([key, ...rest]) => [key, JSON.stringify(rest)]));
  const [a, b] = [list(found), list(wanted)];
  const keys = new Set([...a.keys(), ...b.keys()]);
  return [...keys].flatMap((key) => {
    return a.get(key) === b.get(key)
      ? []
      : [`metadata ${JSON.stringify(key)}: must be ${b.get(key)}, found ${a.get(key)}`];
  });
}
