import { expect, test } from "vitest";
import { memoryTensor } from "../../../test/builders/tensors.ts";
import { Metadata } from "../metadata.ts";
import { restoreEarlier } from "./earlier-form.ts";
import type { Json } from "./origin.ts";

/** Restores two tensors "a" and "b" from an earlier form with these facts; gives their names and lengths. */
function restored(facts: Readonly<Record<string, Json>>): readonly string[] {
  const chain = [{ format: "earlier-form", facts: { formats: ["gguf"], entries: [], ...facts } }];
  const tensors = ["a", "b"].map((name) => memoryTensor(name, "U8", [1], Uint8Array.of(1)));
  const content = restoreEarlier({ metadata: new Metadata([]), tensors, chain }, "gguf", () => undefined);
  return content.tensors.map(({ name, byteLength }) => `${name} ${byteLength}`);
}

test("tensors get their earlier names and order, and counted tensors are made again", () => {
  const order = [
    ["B", "b"],
    ["ids", "ids"],
    ["A", "a"],
  ];
  expect(restored({ order, counted: [["ids", "I64", [1, 3]]] })).toEqual(["B 1", "ids 24", "A 1"]);
  expect(restored({ order, counted: [["ids", "I32", [2, 0]]] })).toEqual(["B 1", "ids 0", "A 1"]);
});

test("counted tensors that are too long are not made, even if their dimensions overflow or multiply to zero", () => {
  const huge = Array(40).fill(Number.MAX_SAFE_INTEGER);
  for (const shape of [[2 ** 20, 2], huge, [...huge, 0], [2 ** 21, 0]]) {
    expect(restored({ order: [], counted: [["ids", "I64", shape]] })).toEqual(["a 1", "b 1"]);
  }
});

test("nothing is restored if two tensors would get the same name", () => {
  for (const order of [
    [["b", "a"]],
    [
      ["x", "a"],
      ["x", "b"],
    ],
  ]) {
    expect(restored({ order, counted: [] })).toEqual(["a 1", "b 1"]);
  }
});
