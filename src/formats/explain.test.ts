import { describe, expect, test } from "vitest";
import { smallSafetensors } from "../../test/cli/small-models.ts";
import { openModel, verify } from "../index.ts";

describe("limits that do not exist", () => {
  test.each([
    [{ nosuch: {} }, /there is no format "nosuch"$/, /^There are /],
    [{ safetensor: {} }, /there is no format "safetensor"$/, /^Did you mean "safetensors"\?/],
    [
      { safetensors: { headerBytez: 1 } },
      /there is no limit of safetensors "headerBytez"$/,
      /^Did you mean "headerBytes"\?/,
    ],
    [{ gguf: { constructor: 1 } }, /there is no limit of gguf "constructor"$/, /^There are /],
  ])("%j are refused, with the name that was meant", async (limits, says, hint) => {
    const refusal = {
      code: "usage/option-value",
      message: expect.stringMatching(says),
      hint: expect.stringMatching(hint),
    };
    await expect(openModel(smallSafetensors(), { limits } as object)).rejects.toMatchObject(refusal);
    await expect(verify(smallSafetensors(), { limits } as object)).rejects.toMatchObject(refusal);
  });
});
