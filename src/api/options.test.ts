import { describe, expect, test } from "vitest";
import { checkOptions, choiceRule, durationIn, integerRule, listOf, sizeIn, sizeRule, WRITE_RULES } from "./options.ts";

const RULES = {
  ...WRITE_RULES,
  dtype: choiceRule("f32", "f16"),
  maxShardSize: sizeRule,
  align: integerRule(1, 4096),
};

function refusal(options: unknown): unknown {
  try {
    checkOptions("convert", options, RULES);
    return undefined;
  } catch (error) {
    return error;
  }
}

describe("options of a verb", () => {
  test.each([
    undefined,
    {},
    { force: undefined, dtype: undefined },
    { dtype: "f16", force: true, dryRun: false },
    { maxShardSize: "4MiB", memory: 1e6, timeout: "30s", concurrency: 2 },
    { headers: { authorization: "x" }, allowOrigin: ["https://a.example"], password: new Uint8Array(3) },
    { signal: AbortSignal.abort(), onNote: () => undefined, engine: "portable", limits: { gguf: { headerBytes: 1 } } },
  ])("%j is accepted", (options) => {
    expect(refusal(options)).toBeUndefined();
  });

  test.each([
    [{ forse: true }, "usage/unknown-option"],
    [{ constructor: 1 }, "usage/unknown-option"],
    [{ force: "yes" }, "usage/option-value"],
    [{ dtype: "f64" }, "usage/option-value"],
    [{ dtype: null }, "usage/option-value"],
    [{ maxShardSize: "much" }, "usage/option-value"],
    [{ align: 1.5 }, "usage/option-value"],
    [{ align: 0 }, "usage/option-value"],
    [{ timeout: -1 }, "usage/option-value"],
    [{ memory: Number.NaN }, "usage/option-value"],
    [{ headers: { a: 1 } }, "usage/option-value"],
    [{ headers: new Headers({ a: "1" }) }, "usage/option-value"],
    [{ headers: new Map([["a", "1"]]) }, "usage/option-value"],
    [{ env: new URLSearchParams("a=1") }, "usage/option-value"],
    [{ s3: new Map([["region", "1"]]) }, "usage/option-value"],
    [new Map([["force", true]]), "usage/option-value"],
    [{ signal: {} }, "usage/option-value"],
    [{ limits: { safetensors: 5 } }, "usage/option-value"],
    [{ limits: { safetensors: null } }, "usage/option-value"],
    [{ limits: { safetensors: { headerBytes: "x" } } }, "usage/option-value"],
    [{ limits: { safetensors: { headerBytes: -1 } } }, "usage/option-value"],
    [{ limits: { safetensors: { headerBytes: Number.NaN } } }, "usage/option-value"],
    [{ password: 1234 }, "usage/option-value"],
    [{ encryption: true }, "usage/option-value"],
    ["force", "usage/option-value"],
    [null, "usage/option-value"],
  ])("%j is refused", (options, code) => {
    expect(refusal(options)).toMatchObject({ code });
  });

  test("the refusal of an unknown name lists all names, the nearest first", () => {
    expect(refusal({ forse: true })).toMatchObject({
      hint: expect.stringMatching(/^Did you mean "force"\? The options are force, align, .*timeout$/),
    });
  });

  test("the refusal is a sentence that says what is wanted and what was found", () => {
    const says = (options: object): string => (refusal(options) as Error).message;
    expect(says({ forse: true })).toBe('Cannot use the option "forse" of convert: there is no such option');
    expect(says({ dtype: "f64" })).toBe(
      'Cannot use the option "dtype" of convert: must be one of "f32", "f16", found "f64"',
    );
    expect(says({ force: "yes" })).toMatch(/: must be true or false, found "yes"$/);
    expect(says({ align: 1.5 })).toMatch(/, found 1.5$/);
    expect(says({ memory: () => 1 })).toMatch(/, found function$/);
  });

  test("a value is never repeated in the refusal, because it may be a secret", () => {
    const error = refusal({ password: { secret: "hunter2" } });
    expect(JSON.stringify(error)).not.toContain("hunter2");
  });
});

test("sizes and times are numbers, or text with a unit", () => {
  expect(["64MiB", "1.5GB", 7, "x", -1, 1.5, undefined].map(sizeIn)).toEqual([
    64 * 2 ** 20,
    1.5e9,
    7,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  expect(["30s", "500ms", "2m", "40", 40, 0, 2 ** 31].map(durationIn)).toEqual([
    30_000,
    500,
    120_000,
    40,
    40,
    undefined,
    undefined,
  ]);
});

test("one or many is a list", () => {
  expect([listOf(undefined), listOf("a"), listOf(["a", "b"])]).toEqual([undefined, ["a"], ["a", "b"]]);
});
