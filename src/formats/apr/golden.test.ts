import { describe, expect, it } from "vitest";
import { convertBytes, formatContract, type Golden } from "../../../test/contracts/format-contract.ts";
import { loadFixture, loadSiblings } from "../../../test/support/fixtures.ts";
import { encodeHex } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import { openSource } from "../../open.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { apr } from "./index.ts";
import { openApr } from "./read.ts";

const context = { engine: portableEngine(), limits: {} };
const STANDARD = ["empty", "one-tensor", "compressed", "every-type", "aligned-32"];

const golden = (name: string, layout: Golden["layout"]): Golden => {
  return { name: `${name}.apr`, bytes: loadFixture("apr", name), layout };
};

formatContract(apr, [
  ...STANDARD.map((name) => golden(name, "standard")),
  golden("loose", "other"),
  { ...golden("set", "other"), siblings: loadSiblings("apr", "set") },
]);

describe("goldens of the specification's layout", () => {
  it.each([
    ["empty", 144, "fc9248de"],
    ["one-tensor", 232, "58135385"],
    ["compressed", 226, "f3a38805"],
  ])("%s has %i bytes and the CRC %s, and is written the same again", async (name, byteLength, crc) => {
    const bytes = loadFixture("apr", name);
    expect(bytes.byteLength).toBe(byteLength);
    expect(encodeHex(bytes.slice(-16, -12))).toBe(crc);
    expect(await convertBytes(await openSource(memorySource(bytes, `${name}.apr`)), apr)).toEqual(bytes);
  });

  it("reads every type with its shape and bytes", async () => {
    const model = await openApr(memorySource(loadFixture("apr", "every-type")), context);
    expect(model.layout).toBe("spec");
    expect(model.version).toBe("2.0");
    expect(model.warnings).toEqual([]);
    expect(model.tensors.map(({ name, dtype, shape }) => `${name} ${dtype} ${shape}`)).toEqual([
      "empty F32 0,7",
      "größe.weight F16 2,1,1,1,1,1,1,3",
      "plain.bf16 BF16 3,5",
      "plain.f16 F16 3,5",
      "plain.f32 F32 3,5",
      "plain.i16 I16 3,5",
      "plain.i32 I32 3,5",
      "plain.i64 I64 3,5",
      "plain.i8 I8 3,5",
      "plain.u8 U8 3,5",
      "quant.q4_0 Q4_0 2,64",
      "quant.q4_1 Q4_1 2,64",
      "quant.q5_0 Q5_0 2,64",
      "quant.q5_1 Q5_1 2,64",
      "quant.q8_0 Q8_0 2,64",
    ]);
    const q8 = model.tensor("quant.q8_0");
    expect(await q8.bytes()).toHaveLength(136);
    expect(model.metadata.get("architecture")).toMatchObject({
      type: "map",
      entries: [
        { key: "n_mels", value: { type: "i64", value: 80 } },
        { key: "eps", value: { type: "f64", value: 1e-5 } },
        { key: "big", value: { type: "u64", value: 2n ** 64n - 1n } },
      ],
    });
  });

  it("reads a file that is as loose as the rules allow, and says how", async () => {
    const model = await openApr(memorySource(loadFixture("apr", "loose")), context);
    expect(await model.tensor("z.last").bytes()).toEqual(Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    expect(await model.tensor("a.first").toFloat32()).toEqual(Float32Array.of(-1, 1));
    expect(model.warnings.map(({ code }) => code).sort()).toEqual([
      "format/apr.index-rest",
      "format/apr.metadata-padding",
      "format/apr.tensor-flags",
      "format/apr.tensor-flags",
      "format/apr.unknown-flags",
    ]);
  });
});
