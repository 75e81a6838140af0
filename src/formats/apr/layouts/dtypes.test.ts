import { expect, test } from "vitest";
import { typeOf } from "./dtypes.ts";

const at = { source: "test" };
const typed = (id: number, shape: readonly number[], byteLength: number): string =>
  typeOf({ id, shape, byteLength, writer: "aprender" }, at).dtype;

test("typeOf() goes by the size if an id has had several meanings", () => {
  expect(typed(2, [4, 32], 256)).toBe("BF16");
  expect(typed(2, [4, 32], 72)).toBe("Q4_0");
  expect(typed(2, [9], 18)).toBe("BF16"); // one block of Q4_0 has the same length
  expect(typed(3, [32], 256)).toBe("F64");
  expect(typed(3, [32], 20)).toBe("Q4_1");
  expect(typed(6, [32], 32)).toBe("I8");
  expect(typed(6, [32], 22)).toBe("Q5_0");
  expect(typed(7, [32], 32)).toBe("U8");
  expect(typed(7, [32], 24)).toBe("Q5_1");
  expect(typed(8, [70], 54)).toBe("APR_Q4");
  expect(typed(8, [64], 68)).toBe("Q8_0");
  expect(typed(8, [256], 176)).toBe("Q5_K");
  expect(typed(9, [70], 74)).toBe("APR_Q8");
  expect(typed(9, [256], 210)).toBe("Q6_K");
  expect(typed(10, [64], 68)).toBe("Q8_0");
  expect(typed(10, [256], 84)).toBe("Q2_K");
  expect([typed(13, [256], 176), typed(30, [5], 10), typed(128, [1], 18), typed(129, [1], 5)]).toEqual([
    "Q5_K",
    "BF16",
    "APR_Q4",
    "APR_Q8",
  ]);
});

test("typeOf() takes K blocks by row and over the whole tensor", () => {
  expect(typed(12, [5, 300], 5 * 2 * 144)).toBe("Q4_K");
  expect(typed(12, [5, 300], 6 * 144)).toBe("Q4_K");
  expect(typed(14, [2, 256], 420)).toBe("Q6_K");
});

test("typeOf() hands out no numbers if the size contradicts the label", () => {
  expect(typeOf({ id: 0, shape: [2, 64], byteLength: 72, writer: "realizar" }, at)).toEqual({
    dtype: "UNKNOWN_0",
    trust: "mislabelled",
  });
  expect(typeOf({ id: 77, shape: [1], byteLength: 4, writer: "aprender" }, at)).toEqual({
    dtype: "UNKNOWN_77",
    trust: "unknown",
  });
  expect(typed(9, [0], 0)).toBe("APR_Q8");
});
