import { expect, test } from "vitest";
import { namePartsOf } from "./tensor-name.tsx";

test.each([
  ["model.layers.12.self_attn.q_proj.weight", ["model.layers.", "12.", "self_attn.", "q_proj.weight"]],
  ["blk.0.attn_q.weight", ["blk.", "0.", "", "attn_q.weight"]],
  ["0.weight", ["", "0.", "", "weight"]],
  ["model.embed_tokens.weight", ["model.", "", "", "embed_tokens.weight"]],
  ["lm_head.weight", ["", "", "", "lm_head.weight"]],
  ["encoder.block.3.layer.0.SelfAttention.k.weight", ["encoder.block.", "3.", "layer.0.SelfAttention.", "k.weight"]],
  ["a.1", ["", "", "", "a.1"]],
  [".1.b.c", [".1.", "", "", "b.c"]],
  [".a", [".", "", "", "a"]],
  ["1..a", ["", "1.", ".", "a"]],
  ["1.x.", ["", "1.", "", "x."]],
  ["a..b", ["a..", "", "", "b"]],
  ["", ["", "", "", ""]],
])("%s", (name, parts) => {
  const { prefix, layer, middle, end } = namePartsOf(name);
  expect([prefix, layer, middle, end]).toEqual(parts);
  expect(prefix + layer + middle + end).toBe(name);
});

test("a name of any length has its parts", () => {
  const long = "a.".repeat(8 << 20);
  expect(namePartsOf(`${long}7.${long}end`)).toMatchObject({ prefix: long, layer: "7.", end: "a.end" });
  expect(namePartsOf(`${"a".repeat(1 << 20)}.b.c`)).toMatchObject({ layer: "", end: "b.c" });
});
