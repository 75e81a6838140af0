import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { expectedGguf, ggufFixture } from "../../../test/builders/gguf-fixtures.ts";
import { formatContract } from "../../../test/contracts/format-contract.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { MetadataValue } from "../../model/metadata.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { gguf } from "./index.ts";
import { openGguf } from "./read.ts";

const context = { engine: portableEngine(), limits: {} };
const STANDARD = ["every-type", "nested", "aligned", "tensors", "no-tensors", "version-2", "set-00002-of-00003"];

formatContract(gguf, [
  ...STANDARD.map((name) => ({ name: `${name}.gguf`, bytes: ggufFixture(name), layout: "standard" as const })),
  { name: "big-endian.gguf", bytes: ggufFixture("big-endian"), layout: "other" },
]);

/** The form in which make.py wrote values down: 64-bit numbers as text. */
function plain(value: MetadataValue): unknown {
  if (value.type === "array") return value.slice().map(plain);
  if (value.type === "u64" || value.type === "i64") return String(value.value);
  return "value" in value ? value.value : undefined;
}

for (const name of ["every-type", "nested", "aligned", "tensors", "no-tensors", "big-endian"]) {
  test(`openGguf() reads ${name} as gguf-py wrote it`, async () => {
    const expected = expectedGguf(name);
    const model = await openGguf(memorySource(ggufFixture(name), name), context);
    expect(model.metadata.entries.map(({ key, value }) => [key, value.type, plain(value)])).toEqual(expected.metadata);
    const tensors = [];
    for (const tensor of model.tensors) {
      const digest = createHash("sha256")
        .update(await tensor.bytes())
        .digest("hex");
      tensors.push([tensor.name, tensor.dtype, tensor.shape, digest]);
    }
    expect(tensors).toEqual(expected.tensors);
    expect(model.warnings).toEqual([]);
  });
}

test("openGguf() keeps the type of every element, also in arrays of arrays", async () => {
  const model = await openGguf(memorySource(ggufFixture("nested")), context);
  expect(model.metadata.get("n.text")).toMatchObject({ type: "array", elementType: "array", length: 2 });
  const value = model.metadata.get("n.three");
  const [first] = value?.type === "array" ? value.slice(0, 1) : [];
  expect(first).toMatchObject({ type: "array", elementType: "array", length: 2 });
});

test("openGguf() tells the byte order and the alignment of the file", async () => {
  const model = await openGguf(memorySource(ggufFixture("big-endian")), context);
  expect(model.version).toBe("3");
  expect(model.facts).toContainEqual(["byte order", "big-endian"]);
  const aligned = await openGguf(memorySource(ggufFixture("aligned")), context);
  expect(aligned.facts).toContainEqual(["alignment", "128 bytes"]);
});
