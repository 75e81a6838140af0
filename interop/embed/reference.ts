import { ONNXRUNTIME } from "./models.ts";

/** Another program's vectors. */
export interface Reference {
  /** The normalised mean of the last layer. */
  embed(ids: Int32Array): Promise<Float32Array>;
}

interface OnnxTensor {
  readonly data: Float32Array;
  readonly dims: readonly number[];
}

interface OnnxRuntime {
  readonly Tensor: new (type: "int64", data: BigInt64Array, dims: readonly number[]) => unknown;
  readonly InferenceSession: {
    create(path: string): Promise<{ run(feeds: object): Promise<Readonly<Record<string, OnnxTensor>>> }>;
  };
}

/** Runs onnxruntime on that file; undefined if it is not installed. */
export async function referenceFor(onnx: string): Promise<Reference | undefined> {
  const runtime = (await import(ONNXRUNTIME).catch(() => undefined)) as OnnxRuntime | undefined;
  if (runtime === undefined) return undefined;
  const session = await runtime.InferenceSession.create(onnx);
  return {
    async embed(ids) {
      const tensor = (value: (i: number) => number): unknown =>
        new runtime.Tensor(
          "int64",
          BigInt64Array.from(ids, (_, i) => BigInt(value(i))),
          [1, ids.length],
        );
      const { last_hidden_state: hidden } = await session.run({
        input_ids: tensor((i) => ids[i] as number),
        attention_mask: tensor(() => 1),
        token_type_ids: tensor(() => 0),
      });
      return meanOf(hidden as OnnxTensor);
    },
  };
}

function meanOf({ data, dims }: OnnxTensor): Float32Array {
  const [, tokens = 0, width = 0] = dims;
  const mean = Array.from({ length: width }, (_, i) => {
    let sum = 0;
    for (let token = 0; token < tokens; token++) sum += data[token * width + i] as number;
    return sum / tokens;
  });
  const norm = Math.hypot(...mean);
  return Float32Array.from(mean, (value) => value / norm);
}
