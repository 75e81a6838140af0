import { describe, expect, test } from "vitest";
import { smallSafetensors } from "../../../test/cli/small-models.ts";
import { convert, memory, openModel } from "../../index.ts";

async function converted(metadata: Record<string, unknown>) {
  const out = memory();
  await convert(smallSafetensors(), out, { to: "apr", metadata: { apr_version: "2", ...metadata } });
  const model = await openModel([...out.files.values()][0] as Uint8Array);
  return (key: string): unknown => model.metadata.get(key);
}

describe("metadata that a caller lays over", () => {
  test("keeps values that JSON.stringify changes", async () => {
    const value = await converted({ zero: -0, big: 2n ** 62n, deep: { list: [1, null, "x"] } });
    expect(value("zero")).toMatchObject({ type: "f64", value: -0 });
    expect(value("big")).toMatchObject({ value: 2n ** 62n });
  });

  test.each([
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [{ inside: [Number.NaN] }],
    [new Map([["a", 1]])],
    [new Date(0)],
    [() => 1],
  ])("is refused where no file can hold it: %s", async (value) => {
    await expect(converted({ value })).rejects.toMatchObject({
      code: "usage/option-value",
      message: expect.stringMatching(/^Cannot convert: the value of "value" in the option metadata must be /),
    });
  });

  test("is refused where it contains itself, and where the whole is a Map", async () => {
    const loop: Record<string, unknown> = {};
    loop["self"] = loop;
    await expect(converted(loop)).rejects.toMatchObject({ code: "usage/option-value" });
    const map = new Map([["a", 1]]) as unknown as Record<string, unknown>;
    await expect(convert(smallSafetensors(), memory(), { to: "apr", metadata: map })).rejects.toMatchObject({
      code: "usage/option-value",
    });
  });
});
