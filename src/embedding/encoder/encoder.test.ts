import { describe, expect, it, test } from "vitest";
import { naiveBert } from "../../../test/builders/naive-bert.ts";
import { tinyBert } from "../../../test/builders/tiny-bert.ts";
import type { BertConfig } from "../../model/bert/config.ts";
import { enableRelaxedSimd } from "../../platform/node/verbs/embed.ts";
import { createEncoder, type EncoderOptions, planGroups } from "./encoder.ts";

enableRelaxedSimd();

const KERNELS = ["relaxed", "simd", "scalar"] as const;

function sentence(length: number, seed = 0): Int32Array {
  return Int32Array.from({ length }, (_, i) => (i * 7 + seed * 3 + length) % 30);
}

function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < a.length; i++) most = Math.max(most, Math.abs((a[i] as number) - (b[i] as number)));
  return a.length === b.length ? most : Number.POSITIVE_INFINITY;
}

const SHAPES: readonly (readonly [string, Partial<BertConfig>])[] = [
  ["two heads of 8", {}],
  ["heads of 5, padded to 8", { hidden: 20, heads: 4, intermediate: 36 }],
  ["odd widths and one head", { hidden: 13, heads: 1, intermediate: 7, layers: 1 }],
  ["[CLS] pooling, ReLU, no normalisation", { pooling: "cls", activation: "relu", normalize: "none" }],
  ["the tanh form of GELU and a large epsilon", { activation: "gelu_tanh", epsilon: 1e-2 }],
  ["columns longer than a block", { hidden: 8, heads: 1, intermediate: 1032, layers: 1 }],
  ["rows a whole page apart", { hidden: 8, heads: 1, intermediate: 1024, layers: 1 }],
];

describe.each(KERNELS)("createEncoder() with the %s kernel", (kernel) => {
  it.each(SHAPES)("agrees with a plain forward pass: %s", async (_, change) => {
    const bert = tinyBert(change);
    const encoder = await createEncoder(bert, { kernel });
    expect(encoder.kernel).toBe(kernel);
    for (const length of [1, 2, 9, 40]) {
      const ids = sentence(length);
      const [vector] = await encoder.embed([ids]);
      expect(largestDifference(vector ?? [], naiveBert(bert, [...ids]))).toBeLessThan(2e-6);
    }
  });

  it.each(["F16", "BF16", "I8"] as const)("reads weights of type %s", async (dtype) => {
    const bert = tinyBert({ hidden: 20, heads: 4, intermediate: 36 }, dtype);
    const encoder = await createEncoder(bert, { kernel, precision: "float" });
    const [vector] = await encoder.embed([sentence(11)]);
    expect(largestDifference(vector ?? [], naiveBert(bert, [...sentence(11)]))).toBeLessThan(2e-6);
  });

  it.each([{}, { hidden: 20, heads: 4, intermediate: 36 }])(
    "computes in whole numbers with I8 weights: %o",
    async (change) => {
      const bert = tinyBert(change, "I8");
      const encoder = await createEncoder(bert, { kernel });
      expect(encoder.precision).toBe("int8");
      const [vector] = await encoder.embed([sentence(17)]);
      // The only difference is the rounding of activations, to 13 bits or to 7.
      const bound = kernel === "relaxed" ? 5e-3 : 1e-3;
      expect(largestDifference(vector ?? [], naiveBert(bert, [...sentence(17)]))).toBeLessThan(bound);
    },
  );

  it.each(["F32", "I8"] as const)("gives a sentence the same vector in a batch as alone: %s", async (dtype) => {
    const encoder = await createEncoder(tinyBert({ hidden: 20, heads: 4, intermediate: 36 }, dtype), { kernel });
    const batch = Array.from({ length: 40 }, (_, i) => sentence(1 + ((i * 11) % 40), i));
    const together = await encoder.embed(batch);
    for (const [i, ids] of batch.entries()) expect(together[i]).toEqual((await encoder.embed([ids]))[0]);
  });
});

describe("createEncoder()", () => {
  it("rounds float weights to eight bits if int8 is requested", async () => {
    const bert = tinyBert();
    const [exact] = await (await createEncoder(bert)).embed([sentence(20)]);
    const encoder = await createEncoder(bert, { precision: "int8" });
    const [rounded] = await encoder.embed([sentence(20)]);
    const difference = largestDifference(exact ?? [], rounded ?? []);
    expect(difference).toBeGreaterThan(0);
    expect(difference).toBeLessThan(0.05);
  });

  it("attends to padding but leaves it out of the mean", async () => {
    const bert = tinyBert();
    const encoder = await createEncoder(bert, { padding: { id: 5, tokens: 12 } });
    const [vector] = await encoder.embed([Int32Array.of(1, 2, 3)]);
    const ids = [1, 2, 3, ...new Array<number>(9).fill(5)];
    const expected = naiveBert(
      bert,
      ids,
      ids.map((id) => (id === 5 ? 0 : 1)),
    );
    expect(largestDifference(vector ?? [], expected)).toBeLessThan(2e-6);
  });

  it.each([
    [new Int32Array(0), "usage/embed.length"],
    [new Int32Array(41), "usage/embed.length"],
    [Int32Array.of(30), "usage/embed.id"],
    [Int32Array.of(-1), "usage/embed.id"],
  ])("refuses %s with %s", async (ids, code) => {
    const encoder = await createEncoder(tinyBert(), { kernel: "scalar" });
    await expect(encoder.embed([ids])).rejects.toMatchObject({ code });
  });

  it.each([1, 41, 2.5])("refuses %d tokens a sentence for a model of 40 positions", async (maxTokens) => {
    await expect(createEncoder(tinyBert(), { maxTokens })).rejects.toMatchObject({ code: "usage/embed.max-tokens" });
  });

  it("refuses a model that does not fit in memory, with a LimitError", async () => {
    const bert = tinyBert({ layers: 1 });
    const huge = { ...bert, config: { ...bert.config, hidden: 65536, intermediate: 65536 } };
    await expect(createEncoder(huge)).rejects.toMatchObject({ code: "limit/embed.memory" });
  });

  it("stops when the signal aborts, and after close()", async () => {
    const encoder = await createEncoder(tinyBert(), { kernel: "scalar" });
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(encoder.embed([sentence(3)], { signal })).rejects.toThrow("enough");
    await encoder.close();
    await expect(encoder.embed([sentence(3)])).rejects.toMatchObject({ code: "usage/embed.closed" });
  });

  it("gives no vectors for no sentences", async () => {
    const options: EncoderOptions = { kernel: "simd" };
    expect(await (await createEncoder(tinyBert(), options)).embed([])).toEqual([]);
  });
});

test("planGroups() fills groups with the longest first and leaves no sentence out", () => {
  const groups = planGroups([3, 10, 7, 2, 10], 12);
  expect(groups.map(({ members }) => members)).toEqual([[1], [4], [2, 0, 3]]);
  expect(groups.map(({ rows }) => rows)).toEqual([10, 10, 12]);
});

test("planGroups() of no sentences gives no groups", () => {
  expect(planGroups([], 12)).toEqual([]);
});
