import { expect, test } from "vitest";
import { Tensor } from "../../model/tensor.ts";
import { Claims } from "./part-tensors.ts";

function tensor(name: string, offset: number, byteLength: number): Tensor {
  const reader = {
    source: () => {
      throw new Error("never read");
    },
  };
  return new Tensor({ name, dtype: "U8", shape: [byteLength], byteLength, offset }, reader);
}

test("finds the tensor with bytes in a run, also if tensors share them", () => {
  const claims = new Claims([tensor("b", 40, 10), tensor("wide", 0, 30), tensor("in it", 5, 5), tensor("none", 60, 0)]);
  const found = (offset: number, byteLength: number): string | undefined => claims.within(offset, byteLength)?.name;
  expect(found(20, 5)).toBe("wide"); // after "in it", which begins later and ends earlier
  expect(found(29, 1)).toBe("wide");
  expect(found(30, 10)).toBeUndefined();
  expect(found(30, 11)).toBe("b");
  expect(found(49, 100)).toBe("b");
  expect(found(50, 100)).toBeUndefined();
  expect(found(10, 0)).toBeUndefined();
});
