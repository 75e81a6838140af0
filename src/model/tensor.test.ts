import { expect, test } from "vitest";
import { float32Tensor, memoryTensor } from "../../test/builders/tensors.ts";
import { nearNames } from "./model.ts";

test("Tensor.rows() is a tensor of those rows and reads only them", async () => {
  const rows = float32Tensor("m", [1, 2, 3, 4, 5, 6], [3, 2]).rows(1, 3);
  expect(rows.shape).toEqual([2, 2]);
  expect([...(await rows.toFloat32())]).toEqual([3, 4, 5, 6]);
  expect([...(await rows.rows(1).toFloat32())]).toEqual([5, 6]);
});

test.each([
  [-1, 1],
  [0, 4],
  [2, 1],
  [0.5, 1],
])("Tensor.rows(%d, %d) refuses rows that are not there", (start, end) => {
  const refusal = expect.objectContaining({ code: "usage/rows" });
  expect(() => float32Tensor("m", [1, 2, 3]).rows(start, end)).toThrow(refusal);
});

test("Tensor.rows() refuses to cut inside a block or a byte", () => {
  const refusal = expect.objectContaining({ code: "usage/rows" });
  expect(() => memoryTensor("q", "Q8_0", [64], new Uint8Array(68)).rows(0, 32)).toThrow(refusal);
  expect(() => memoryTensor("f", "F4", [3, 2], new Uint8Array(3)).rows(1)).not.toThrow();
  expect(() => memoryTensor("f", "F4", [6], new Uint8Array(3)).rows(1)).toThrow(refusal);
});

test("Tensor.rows() of an empty tensor is empty", async () => {
  const rows = memoryTensor("e", "F32", [0, 4], new Uint8Array(0)).rows(0, 0);
  expect(await rows.bytes()).toHaveLength(0);
});

test("nearNames() finds the tensor a typo meant", () => {
  const names = ["model.layers.0.self_attn.q_proj.weight", "model.embed_tokens.weight", "lm_head.weight"];
  expect(nearNames("model.layers.0.self_atn.q_proj.weight", names)[0]).toBe(names[0]);
  expect(nearNames("q_proj", names)).toEqual([names[0]]);
  expect(nearNames("zzz", names)).toEqual([]);
});
