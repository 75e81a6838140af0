import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { fixtureFacts, hexFixture } from "../../../test/builders/safetensors.ts";
import { formatContract } from "../../../test/contracts/format-contract.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { safetensors } from "./index.ts";
import { SAFETENSORS_DTYPES } from "./layout.ts";
import { openSafetensors } from "./read.ts";

const NAMES = ["dtypes", "names", "empty"];
const context = { engine: portableEngine(), limits: {} };

formatContract(
  safetensors,
  NAMES.map((name) => ({ name: `${name}.safetensors`, bytes: hexFixture(name), layout: "standard" as const })),
);

for (const name of NAMES) {
  test(`openSafetensors() reads ${name}.hex as another program does`, async () => {
    const facts = fixtureFacts(name);
    const model = await openSafetensors(memorySource(hexFixture(name)), context);
    const tensors = await Promise.all(
      model.tensors.map(async (tensor) => ({
        name: tensor.name,
        dtype: tensor.dtype,
        shape: tensor.shape,
        offset: tensor.offset,
        sha256: createHash("sha256")
          .update(await tensor.bytes())
          .digest("hex"),
      })),
    );
    expect(tensors).toEqual(facts.tensors);
    expect(model.metadata.entries).toEqual(
      Object.entries(facts.metadata).map(([key, value]) => ({ key, value: { type: "string", value } })),
    );
    expect(model.parts[0]?.byteLength).toBe(facts.byteLength);
  });
}

test("SAFETENSORS_DTYPES is in the order in which the reference writer put them", () => {
  const written = fixtureFacts("dtypes").tensors.map((tensor) => tensor.dtype);
  const expected = SAFETENSORS_DTYPES.filter((dtype) => written.includes(dtype));
  expect(written).toEqual(expected);
  expect(SAFETENSORS_DTYPES).toHaveLength(22);
});
