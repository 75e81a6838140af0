import type { Bytes } from "../../src/base/bytes.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { sliceSource } from "../../src/bytes/slice.ts";
import type { Source } from "../../src/bytes/source.ts";
import type { DType, Shape } from "../../src/model/dtype.ts";
import { Metadata } from "../../src/model/metadata.ts";
import { type Model, TensorIndex } from "../../src/model/model.ts";
import { Tensor } from "../../src/model/tensor.ts";

/** A tensor whose bytes are in memory. */
export function memoryTensor(name: string, dtype: DType, shape: Shape, bytes: Bytes): Tensor {
  const source = memorySource(bytes, name);
  return new Tensor({ name, dtype, shape, byteLength: bytes.byteLength, offset: 0 }, { source: () => source });
}

/** Tensors that lie one after the other in one source, as in a file. */
export function adjacentTensors(source: Source, lengths: readonly number[], gap = 0): Tensor[] {
  let offset = 0;
  return lengths.map((byteLength, i) => {
    const start = offset;
    offset += byteLength + gap;
    const facts = { name: `t${i}`, dtype: "U8" as const, shape: [byteLength], byteLength, offset: start };
    return new Tensor(facts, { source: () => sliceSource(source, start, byteLength) });
  });
}

export function float32Tensor(name: string, values: readonly number[], shape: Shape = [values.length]): Tensor {
  return memoryTensor(name, "F32", shape, new Uint8Array(Float32Array.from(values).buffer));
}

export function memoryModel(tensors: readonly Tensor[], metadata: Metadata = new Metadata()): Model {
  const index = new TensorIndex(tensors, "memory");
  return {
    kind: "model",
    format: "test",
    version: undefined,
    parts: [],
    metadata,
    tensors,
    warnings: [],
    facts: [],
    tensor: (name) => index.get(name),
    close: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
