import { expect, test } from "vitest";
import { float32Tensor, memoryModel, memoryTensor } from "../../test/builders/tensors.ts";
import { Metadata } from "../model/metadata.ts";
import { castTensor } from "../model/values/casts.ts";
import { diff } from "./diff.ts";

test("diff() lists added, removed and changed tensors", async () => {
  const a = memoryModel([float32Tensor("same", [1]), float32Tensor("gone", [1]), float32Tensor("edited", [1, 2])]);
  const b = memoryModel([float32Tensor("same", [1]), float32Tensor("edited", [1, 3]), float32Tensor("new", [1])]);
  const report = await diff(a, b, { stats: "stats" });
  expect(report).toMatchObject({ equal: false, added: ["new"], removed: ["gone"], unchanged: 1 });
  expect(report.changed).toMatchObject([{ name: "edited", what: ["data"], delta: { maxAbs: 1, differing: 1 } }]);
});

test("diff() with a tolerance accepts rounding and still reports larger differences", async () => {
  const values = [0.1, 0.2, 0.3];
  const a = memoryModel([float32Tensor("w", values)]);
  const b = memoryModel([castTensor(float32Tensor("w", values), "F16")]);
  expect((await diff(a, b)).changed).toMatchObject([{ what: ["dtype"] }]);
  expect(await diff(a, b, { tolerance: 1e-3 })).toMatchObject({ equal: true });
  expect((await diff(a, b, { tolerance: 1e-9 })).changed).toMatchObject([{ what: ["dtype", "data"] }]);
});

test("diff() reports a changed shape even if the bytes are the same", async () => {
  const a = memoryModel([float32Tensor("w", [1, 2], [2])]);
  const b = memoryModel([float32Tensor("w", [1, 2], [1, 2])]);
  expect((await diff(a, b)).changed).toMatchObject([{ what: ["shape"] }]);
});

test("diff() sees one flipped bit in the last bytes of a large tensor", async () => {
  const bytes = new Uint8Array(3_000_003).fill(7);
  const flipped = bytes.slice();
  flipped[3_000_001] = 6;
  const shape = [bytes.length];
  const a = memoryModel([memoryTensor("w", "U8", shape, bytes)]);
  expect(await diff(a, memoryModel([memoryTensor("w", "U8", shape, bytes.slice())]))).toMatchObject({ equal: true });
  expect(await diff(a, memoryModel([memoryTensor("w", "U8", shape, flipped)]))).toMatchObject({ equal: false });
});

test("diff() shows metadata differences and counts them only on request", async () => {
  const a = memoryModel([], new Metadata([{ key: "k", value: { type: "string", value: "1" } }]));
  const b = memoryModel([], new Metadata([{ key: "k", value: { type: "string", value: "2" } }]));
  expect(await diff(a, b)).toMatchObject({ equal: true, metadata: [{ key: "k", what: "changed" }] });
  expect(await diff(a, b, { metadata: "metadata" })).toMatchObject({ equal: false });
});
