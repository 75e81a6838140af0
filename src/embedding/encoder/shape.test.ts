import { expect, it } from "vitest";
import { tinyBert } from "../../../test/builders/tiny-bert.ts";
import { type EncoderShape, type KernelKind, type Precision, weightForm } from "./shape.ts";

function shapeOf(precision: Precision, intermediate: number): EncoderShape {
  return { ...tinyBert().config, intermediate, precision, rows: 128, slots: 1 };
}

it.each<readonly [Precision, number, KernelKind, string]>([
  ["float", 32, "relaxed", "floats"],
  ["int8", 32, "relaxed", "bytes"],
  ["int8", 2 ** 17, "relaxed", "bytes"],
  ["int8", 2 ** 17 + 1, "relaxed", "shorts"],
  ["int8", 32, "simd", "shorts"],
  ["int8", 32, "scalar", "shorts"],
])("weightForm() of %s with %d inner values and the %s kernel is %s", (precision, intermediate, kernel, form) => {
  expect(weightForm(shapeOf(precision, intermediate), kernel)).toBe(form);
});
