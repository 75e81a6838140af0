import { describe, expect, test } from "vitest";
import { setTensorBytes } from "../../../test/builders/aeroset.ts";
import { formatContract } from "../../../test/contracts/format-contract.ts";
import { inputResolver } from "../../../test/fuzz/fuzz-input.ts";
import { fixtureNames, loadFixture, loadSiblings } from "../../../test/support/fixtures.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { aeroset } from "./index.ts";
import type { SetModel } from "./model.ts";
import { openAeroset } from "./read.ts";

const NAMES = fixtureNames("aeroset");

/** In the order of `SetModel.parts`: the index comes before the parts. */
function siblingsOf(name: string): Map<string, Uint8Array<ArrayBuffer>> {
  return new Map([...loadSiblings("aeroset", name)].sort());
}

formatContract(
  aeroset,
  NAMES.map((name) => ({
    name: `${name}.aeroset.json`,
    bytes: loadFixture("aeroset", name),
    siblings: siblingsOf(name),
    layout: "other" as const,
  })),
);

async function openFixture(name: string): Promise<SetModel> {
  const files = siblingsOf(name);
  const resolver = inputResolver({ primary: name, files });
  const source = memorySource(loadFixture("aeroset", name), name);
  return openAeroset(source, { engine: portableEngine(), limits: {}, resolver });
}

describe("openAeroset()", () => {
  test.each(NAMES)("reads every tensor of %s", async (name) => {
    const model = await openFixture(name);
    expect(model.tensors.map((tensor) => tensor.name)).toEqual(["t0", "t1", "t2", "t3", "t4"]);
    for (const [i, tensor] of model.tensors.entries()) {
      expect(tensor).toMatchObject({ dtype: "F32", shape: [4], byteLength: 16, file: `part-00${i >> 1}.aero` });
      expect(await tensor.bytes()).toEqual(setTensorBytes(i));
    }
    expect(model.metadata.text("model_name")).toBe("five");
    await model.close();
  });

  test("says which digest checks reads, before and after the part is open", async () => {
    const proofs = async (name: string): Promise<readonly unknown[]> => {
      const model = await openFixture(name);
      const tensor = model.tensor("t3");
      const before = model.verificationOf(tensor);
      await tensor.bytes();
      return [before, model.verificationOf(tensor)];
    };
    expect(await proofs("local-ids")).toEqual(["unverified", "unverified"]);
    expect(await proofs("global-ids")).toEqual(["tensor", "pages"]);
    expect(await proofs("index-hashes")).toEqual(["tensor", "tensor"]);
  });
});
