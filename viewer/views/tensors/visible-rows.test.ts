import { expect, test } from "vitest";
import { layerOf } from "../../pages/tensor-table.ts";
import { type RowOptions, visibleRows } from "./visible-rows.ts";

const names = ["model.layers.0.attn.weight", "model.layers.0.norm", "model.layers.1.attn.weight", "lm_head.weight"];
const table = {
  names,
  dtypeNames: ["F16", "F32"],
  dtype: Uint16Array.of(0, 1, 0, 0),
  shapes: ["4096 × 128", "4096", "4096 × 128", "32000 × 4096"],
  elementCount: Float64Array.of(1, 2, 3, 4),
  byteLength: Float64Array.of(10, 20, 30, 40),
  offset: Float64Array.of(0, 10, 30, 60),
  part: Uint32Array.of(0, 0, 0, 0),
  groupNames: ["model.layers.0", "model.layers.1", "lm_head"],
  group: Uint32Array.of(0, 0, 1, 2),
};

function shown(change: Partial<RowOptions>): string[] {
  const options = {
    order: [0, 1, 2, 3],
    direction: "up",
    filter: "",
    grouping: "none",
    closed: new Set<number>(),
  } as const;
  const { rows, headings } = visibleRows(table, { ...options, ...change });
  return Array.from(rows, (row) => {
    const heading = headings[~row];
    return heading === undefined
      ? (names[row] as string)
      : `${table.groupNames[heading.group]} ${heading.count} ${heading.byteLength}`;
  });
}

test("words of a filter match names, types, shapes or globs, and all must match", () => {
  expect(shown({ filter: "attn f16" })).toHaveLength(2);
  expect(shown({ filter: "f32" })).toEqual(["model.layers.0.norm"]);
  expect(shown({ filter: "*.1.*" })).toEqual(["model.layers.1.attn.weight"]);
  expect(shown({ filter: "32000 HEAD" })).toEqual(["lm_head.weight"]);
  expect(shown({ filter: "nothing" })).toEqual([]);
});

test("groups have the rows that pass the filter, and closed ones only their heading", () => {
  expect(shown({ grouping: "layer", filter: "weight", closed: new Set([0]) })).toEqual([
    "model.layers.0 1 10",
    "model.layers.1 1 30",
    "model.layers.1.attn.weight",
    "lm_head 1 40",
    "lm_head.weight",
  ]);
  expect(shown({ direction: "down" })[0]).toBe("lm_head.weight");
});

test.each([
  ["model.layers.11.mlp.up_proj.weight", "model.layers.11"],
  ["blk.3.attn_q.weight", "blk.3"],
  ["encoder.layer.0.output.dense.bias", "encoder.layer.0"],
  ["transformer.h.5.ln_1.weight", "transformer.h.5"],
  ["vision.0.weight", "vision.0"],
  ["token_embd.weight", "token_embd"],
  ["bias", "others"],
])("%s belongs to %s", (name, layer) => {
  expect(layerOf(name)).toBe(layer);
});
