import { createHash } from "node:crypto";
import { describe, expect, it, test } from "vitest";
import { decodeBase64 } from "../../base/text.ts";
import type { DType } from "../dtype.ts";
import { convertToFloat32, convertToNumbers } from "./numbers.ts";

const at = { source: "test" };
const bytes = (...values: number[]): Uint8Array<ArrayBuffer> => Uint8Array.from(values);

test("convertToFloat32() reads float16 patterns: normal, subnormal, infinite, NaN, negative zero", () => {
  // 1.0, -2.0, smallest subnormal 2^-24, largest 65504, +inf, NaN, -0
  const halves = bytes(0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0xff, 0x7b, 0x00, 0x7c, 0x00, 0x7e, 0x00, 0x80);
  const values = convertToFloat32("F16", halves, at);
  expect([...values]).toEqual([1, -2, 2 ** -24, 65504, Number.POSITIVE_INFINITY, Number.NaN, -0]);
});

test("convertToFloat32() reads bfloat16 at an odd address", () => {
  const shifted = bytes(0xff, 0x80, 0x3f, 0x00, 0xc0).subarray(1);
  expect([...convertToFloat32("BF16", shifted, at)]).toEqual([1, -2]);
});

test.each([
  // From the OCP 8-bit floating point specification, tables 1 and 2, and the FNUZ variants of ONNX.
  ["F8_E4M3", [0x38, 0x7e, 0x7f, 0x01, 0xb8], [1, 448, Number.NaN, 2 ** -9, -1]],
  ["F8_E5M2", [0x3c, 0x7b, 0x7c, 0x7e, 0x01], [1, 57344, Number.POSITIVE_INFINITY, Number.NaN, 2 ** -16]],
  ["F8_E4M3FNUZ", [0x40, 0x7f, 0x80, 0x01], [1, 240, Number.NaN, 2 ** -10]],
  ["F8_E5M2FNUZ", [0x40, 0x7f, 0x80, 0x01], [1, 57344, Number.NaN, 2 ** -17]],
  ["F8_E8M0", [0x7f, 0x80, 0x00, 0xff], [1, 2, 2 ** -127, Number.NaN]],
  ["I8", [0x80, 0xff, 0x7f], [-128, -1, 127]],
  ["BOOL", [0, 1, 2], [0, 1, 1]],
] as const)("convertToFloat32(%s) gives the values of the specification", (dtype, input, expected) => {
  expect([...convertToFloat32(dtype, Uint8Array.from(input), at)]).toEqual(expected);
});

test("convertToNumbers() keeps what a float32 would round", () => {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigInt64(0, 2n ** 40n + 1n, true);
  const values = convertToNumbers("I64", new Uint8Array(view.buffer), at);
  expect([...values]).toEqual([2 ** 40 + 1]);
});

test("convertToFloat32() refuses block types without a decoder by name", () => {
  const refusal = expect.objectContaining({ code: "unsupported/dtype.float32" });
  expect(() => convertToFloat32("IQ1_S", bytes(), at)).toThrow(refusal);
});

/**
 * Random blocks with finite scales, and the SHA-256 of what ggml's own reference functions decode them to (ggml 0.25.3,
 * built without fused multiply-add): bit for bit, little-endian.
 */
const GGML: readonly { readonly dtype: DType; readonly blocks: string; readonly sha256: string }[] = [
  {
    dtype: "Q8_0",
    blocks:
      "abAxH6JhQL6exrTZI6+N7YYV67v7H10MyJSiugWLBkardbYyp2Gsb2rxoiPE+d70Iv+dO9lPsdg2SDufgt80fzIfOpk9rqG/zPXF" +
      "m6/Lz40aPsGDKkzNuAu7dLx0344WZ8uMTDO1NbJrHtffzRekTvcWm6x4aREnVQzLwy+c/T4RKjadC6gscw==",
    sha256: "c8bdfe1c5986a07b9d6aa9741848902254069faa75705a499d9fc48a42f6559a",
  },
  {
    dtype: "Q4_0",
    blocks: "qDEt94RXkRvRJNOUgwIFRnwF4a06VGtOijb7ipRdTFsoFd2B/bA7b+1od+7+pwVOznLlOx/wc63Hx1+A5Axdhvg37FOriYKN",
    sha256: "cbc4ab5f83032f492b6d1492f74f7ee9f89bec1c109c621b661869a7160694f5",
  },
  {
    dtype: "Q4_1",
    blocks:
      "pqsPMgKmOrcdY++KzF2ahw5OWA+HJyesg8AGL9EYZxjNSCfN6UUsdxippq27c5POmqU9kVJk/qXjX6kCiClDMRnYE5kWBnIPqWkT" +
      "iqg6Z2c=",
    sha256: "44ea95d7c5915cc940b603947851d07befa1164a7a58b983304d5f2eaa0f95d3",
  },
  {
    dtype: "Q5_0",
    blocks:
      "I7PCqLuhYkaHTBc85n9dGbzeRNaIG/Kxo3y6+wGYTHo4HONENelXnN/GdNVkqH70Q0wKrYGi+jcjYrXXY2McnE50Oi77eQPnJ31l" +
      "g8YrurjcyPHAT/QSbw==",
    sha256: "ddef2d281bb873d1c4b988f832af0061916d8bd91a0a260c32ae384bb58236d0",
  },
  {
    dtype: "Q5_1",
    blocks:
      "qi03s8LjtOaIy/zV3NfqFmDM7EoA/HvE4aKSsvu83+qGm52bRxDvw755QFLtjLEptywKL/UvE9nbgSLQfFDC/5bL+fB0kaKZ+KCT" +
      "LdveKBXXu9gmPL692rmJwM2+vImJ",
    sha256: "652fed31e79c0a133a720fed11f8d07ca78cc3267bb296c11dc36c853a337f95",
  },
  {
    dtype: "Q2_K",
    blocks:
      "UtaX+fGXisL5k4yMjY6hzcjKIyFlglmkd/4a6BeTDBSSELXbNvyYtRWTLCVMfqSYKBkNY4HDntTl+TwIpb5c3y3IRgXwGo6pMzN1" +
      "KhTFOxzHMLqu4ibO5iyIsmzN7YerGHDaRS//3y4UAKJxqfmuxdQVRwB4YKo1SZ3Ksub944f/iBjI0DekLyIDz8J7eYTC/tBG6BwB" +
      "s4CYp1QxR3bHt7Oe4DNDrdUq",
    sha256: "019f3e95a742b224901923f469f07a78948693a85e141bcdf80f567fc3d821d7",
  },
  {
    dtype: "Q3_K",
    blocks:
      "gVqWYsum8+kpCn47hzgJSI7ZOU3PHgR5eqszbhdu/jBgZOPii20cs7Ml2nJNrtJNkS8sVeoNhaJhQI8Oe+l3KNysjHEtixCROoTa" +
      "vUP0ONIEeRNxo8murpaDkt64Tw4ApunFf3uYx8P291HUviEDaCjhDqcoO4BMWybsIBdR1/opw2kgy805lSLtvDYZnReNFsR+ff70" +
      "kqY7/MlCaHlisxY6TkeoVXv2fAiUjl0ERRsYZShk9FgZjjlVqmYKS2MPpbnBrPY6n0WLYzMz47AxKlTCZgVuJwWovw1PIA==",
    sha256: "a80ce3509fa2d98c061a489c08930541ebffe9c24e5470b08aaa9c4e5674c73c",
  },
  {
    dtype: "Q4_K",
    blocks:
      "rjBSM4eVVlAIPcj4xCH8XceOr32yWA6LnVyoE9wjXpjYDTyJ64oZgxCeCKsvbCDXvKDx3t8JyTGVpFlgImmJEF8NPVHugbVvac/I" +
      "dAjY3kBlqeBawLlq/57gKTSjx9Ik4yUXq+ZX+oNp4dpBRu13rvEZUA3f8dRHBhhdW4uNEndm93Q/nV4Gtt/GiQ9cTOpZrS9VJOe8" +
      "n7hHkW5cmQhwncB3HN0oW9qPN9QsT1dacrcjB6yiglveV4w0Wx8InTlks8Nmd90jBSLHETJMlj8CWSoDyChBJnATOthZSqxkMyhe" +
      "IJ0p901OcvfFyxzuBZ6DIBtTJvXqHf8n922EdDDuzC5DI9+kSAnQzhCoeqeEih27ep0mfA6BC14F50/ZDOT4",
    sha256: "8e8d0357d0f4b977f548fac42b48f415f785e1fa07195083f4eb4e1687274a5f",
  },
  {
    dtype: "Q5_K",
    blocks:
      "RKwfs2JZOY4uuXD4pSDLEZI1Kb1Zg3hySC///jVYDT43a9UMTwLCGhK2w26264WETI6hZszz1UkKlvi8fegmeH+ig0gQQaPmBREN" +
      "MLHF0IIzVjSCMfSnfpYWrJeJ4prbi9JHd5yL2OSWAUPlxO5lVxg/HC1hJvl3UKfyyVRxIzPLJTgVSRGlpVKZixG4+O9jLLXuFF4o" +
      "oe8DCekqfm/U6fP92V1qr3d7D13KSSq/BaxXrLExiXDzF2imzVRQzgbEsVMUuFixVI1+BnBxb5wZ0UZ8sdm46/ZI5dhIG6uQ0lCt" +
      "LeiuArHifztnaGfR7QWIIagCBhNh5P2N/vvgV+IyR35lmczYxlkMGfBZGZFNCJV+t5t+Pic4QbfHyn5D3EAh1Wm9/tQG5jh/oQqP" +
      "On7jFI+o0MWmVBp1BlBcza9kJ+ebB54JhbyWsLwcQQarkJ/LG2d9qiEIFiCdMCuoiwbiKg==",
    sha256: "64a810cc649cfa16f5daca2238d487e90b09cc9c27aaefb7cd277050ff11842d",
  },
  {
    dtype: "Q6_K",
    blocks:
      "n9p3DIrxcvIaDxTyTTN3yki5dwdtz2TYVrBqqzCK4+haRMkBoYyEMbFoA4cFZrMKRPnuOdUHyjlZR2KzmXjCEc3/Abtyf9D6clF/" +
      "dBSF10AHPq4w+wGLswBoUSCsOzFchhGdThv0z9lspjPDrQrmcElqEtzealjhklaSCklye9zzgh+CAkqwwOTuPdWw0pY9brBCKDnd" +
      "igWruEy+CmQLGXLZNJTynkaEmW42wGwUFqEOmvmHJ/NSSwvyZuwODawnrzzxfeyO2Yii9C7r/A+QooExRZxH6dH91irVpaFPqhAU" +
      "gHaU6F02TexejsqnvHL6Ntnol+o84HcQ6IQDnvWT74W8FeOBIFkMH7jPzl5YVAP6N+LKIQrgDfRYJn8lSRcXprjrcVYbyRiyxpIc" +
      "7JenEbh5IP4VFsfqWRnBrp4Awfp/NXzvgnl4uJMWIE4s7KxQxPysmsrlvMkMi2h4q+2RAS6kU9hSrner3vCPinHFg/zP2SgryW2Z" +
      "zlw/8T4rz/QYgzJhLMbO+1HqJe7QKmmNZTVBFtAZ6na9oqnuAcr7ZBllp/Ay",
    sha256: "ab0a255309159e573e49090f4954b2d57515800bb769ac666ec12b49abee0a31",
  },
];

describe("block types", () => {
  it.each(GGML)("decodes $dtype to the bits that ggml decodes it to", ({ dtype, blocks, sha256 }) => {
    const bytes = decodeBase64(blocks) ?? new Uint8Array(0);
    const values = convertToFloat32(dtype, bytes, { source: "test" });
    expect(createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex")).toBe(sha256);
  });

  const nibbles = Array.from({ length: 16 }, (_, j) => j | ((15 - j) << 4));
  const up = Array.from({ length: 16 }, (_, j) => j);

  it.each([
    { dtype: "Q8_0", bytes: [0, 0x38, ...up, ...up], values: [...up, ...up].map((q) => q * 0.5) },
    { dtype: "Q4_0", bytes: [0, 0x3c, ...nibbles], values: [...up.map((j) => j - 8), ...up.map((j) => 7 - j)] },
    {
      dtype: "Q4_1",
      bytes: [0, 0x38, 0, 0xbc, ...nibbles],
      values: [...up.map((j) => 0.5 * j - 1), ...up.map((j) => 6.5 - 0.5 * j)],
    },
    {
      dtype: "Q5_0",
      bytes: [0, 0x3c, 0, 0, 0xff, 0xff, ...nibbles],
      values: [...up.map((j) => j - 16), ...up.map((j) => 15 - j)],
    },
  ] as const)("reads $dtype in the order of ggml's nibbles", ({ dtype, bytes, values }) => {
    expect([...convertToFloat32(dtype, Uint8Array.from(bytes), { source: "test" })]).toEqual(values);
  });

  it("passes on a NaN scale instead of hiding it", () => {
    const bytes = Uint8Array.from([0, 0x7e, ...up, ...up]);
    expect([...convertToFloat32("Q8_0", bytes, { source: "test" })].every(Number.isNaN)).toBe(true);
  });
});
