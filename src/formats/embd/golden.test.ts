import { describe, expect, it, test } from "vitest";
import { formatContract, type Golden } from "../../../test/contracts/format-contract.ts";
import { loadFixture } from "../../../test/support/fixtures.ts";
import { memorySource } from "../../bytes/memory.ts";
import { stringsOf } from "../../model/bert/vocabulary.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { embd } from "./index.ts";
import { openEmbd } from "./read.ts";

const context = { engine: portableEngine(), limits: {} };
const golden = (name: string, layout: Golden["layout"]): Golden => {
  return { name: `${name}.weights`, bytes: loadFixture("embd", name), layout };
};
const STANDARD = ["tiny", "no-vocabulary", "unaligned", "every-type", "empty"];
/** Legal files that we would write differently. The differences are carried, so these files are restored too. */
const CARRIED = ["relative", "specials-first", "base-not-64"];
const OTHER = ["stream", "stream-bert-turned", "adr"];

formatContract(embd, [
  ...[...STANDARD, ...CARRIED].map((name) => golden(name, "standard")),
  ...OTHER.map((name) => golden(name, "other")),
]);

describe("goldens of all three layouts", () => {
  it("reads every type with its shape and values", async () => {
    const model = await openEmbd(memorySource(loadFixture("embd", "every-type")), context);
    expect(model.version).toBe("1.0");
    expect(model.warnings).toEqual([]);
    expect(model.tensors.map(({ name, dtype, shape }) => `${name} ${dtype} ${shape}`)).toEqual([
      "f32 F32 2",
      "f16 F16 1,2",
      "bf16 BF16 2,1",
      "i32 I32 1,1,2",
      "i16 I16 2,1,1,1",
      "i8 I8 3",
      "u32 U32 1",
      "u16 U16 1,1,1,3",
      "u8 U8 5",
    ]);
    const values = await Promise.all(model.tensors.map(async (tensor) => [...(await tensor.toFloat32())]));
    expect(values).toEqual([
      [1, -1],
      [0.5, 2],
      [1, -2],
      [-(2 ** 31), 2 ** 31],
      [-32768, 32767],
      [-128, 0, 127],
      [2 ** 32],
      [0, 1, 65535],
      [0, 1, 2, 254, 255],
    ]);
  });

  test.each(["tiny", "relative", "specials-first", "specials-first-relative"])(
    "%s gives the same nine tokens and special ids",
    async (name) => {
      const model = await openEmbd(memorySource(loadFixture("embd", name)), context);
      expect(model.warnings).toEqual([]);
      const tokens = stringsOf(model.metadata.get("vocabulary.tokens"));
      expect(tokens).toEqual(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "日", ""]);
      const special = model.metadata.get("vocabulary.special");
      expect(special?.type === "array" && special.slice()).toEqual(
        [0, 1, 2, 3, 4].map((value) => ({ type: "u32", value })),
      );
      expect(model.metadata.text("note")).toBe("naïve 日本");
    },
  );

  it("a stream gives the same model in both orientations", async () => {
    const [plain, turned] = await Promise.all(
      ["stream-bert", "stream-bert-turned"].map((name) => openEmbd(memorySource(loadFixture("embd", name)), context)),
    );
    expect(plain?.tensors.map(({ name, shape }) => [name, shape])).toEqual(
      turned?.tensors.map(({ name, shape }) => [name, shape]),
    );
    for (const tensor of plain?.tensors ?? []) {
      expect(await turned?.tensor(tensor.name).bytes(), tensor.name).toEqual((await tensor.bytes()).slice());
    }
    const stored = turned?.tensor("encoder.layer.0.intermediate.dense.weight");
    expect(stored?.shape).toEqual([3, 2]);
    expect(turned?.facts).toContainEqual(["linear weights", "stored [in, out], shown as [out, in]"]);
    expect(plain?.facts).toContainEqual(["linear weights", "shown as stored"]);
  });

  it("offsets of ADR-002 count from the file or from the data", async () => {
    for (const name of ["adr", "adr-relative"]) {
      const model = await openEmbd(memorySource(loadFixture("embd", name)), context);
      expect(await model.tensor("w").toFloat32(), name).toEqual(Float32Array.of(0, 1, 2, 3, 4, 5));
      expect(await model.tensor("b").toFloat32(), name).toEqual(Float32Array.of(1, 2, 3));
    }
  });
});
