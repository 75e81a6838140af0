import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { formatContract } from "../../../test/contracts/format-contract.ts";
import { fixtureNames, loadFixture } from "../../../test/support/fixtures.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { MetadataValue } from "../../model/metadata.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { aero } from "./index.ts";
import { openAero, reader } from "./read.ts";

const context = { engine: portableEngine(), limits: {} };
const NAMES = fixtureNames("aero");

formatContract(
  aero,
  NAMES.map((name) => ({ name: `${name}.aero`, bytes: loadFixture("aero", name), layout: "other" as const })),
);

interface Expected {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly tensors: readonly (readonly [name: string, dtype: string, shape: readonly number[], sha256: string])[];
}

function plain(value: MetadataValue): unknown {
  if (value.type === "array") return value.slice().map(plain);
  if (value.type === "map") return Object.fromEntries(value.entries.map((entry) => [entry.key, plain(entry.value)]));
  return "value" in value ? value.value : null;
}

for (const name of NAMES) {
  test(`openAero() reads ${name} as it was made`, async () => {
    const path = new URL(`../../../test/fixtures/aero/${name}.json`, import.meta.url);
    const expected = JSON.parse(readFileSync(path, "utf8")) as Expected;
    const model = await openAero(memorySource(loadFixture("aero", name), name), context);
    const metadata = Object.fromEntries(model.metadata.entries.map(({ key, value }) => [key, plain(value)]));
    expect(metadata).toEqual(expected.metadata);
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

test("describe() gives the facts that writing the file again needs", async () => {
  const facts = async (name: string) =>
    reader.describe?.(await openAero(memorySource(loadFixture("aero", name), name), context));
  expect(await facts("dtypes")).toEqual({ uuid: "11".repeat(16), align: 1 });
  expect(await facts("hashed")).toMatchObject({
    uuid: "000102030405060708090a0b0c0d0e0f",
    shards: [2, 1],
    pageBytes: 16,
    tensorHashes: true,
    controlHash: true,
  });
  expect(await facts("pages")).toMatchObject({ pageBytes: 24 });
  expect(await facts("packed")).toMatchObject({ quants: [["opaque", 1, { codec: "zip", level: 3 }]] });
});
