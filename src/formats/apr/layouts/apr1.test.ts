import { describe, expect, test } from "vitest";
import { zstdFrame } from "../../../../test/builders/aero.ts";
import { faultsOf, openBytes, refusalOf, survives } from "../../../../test/builders/apr-layout-reading.ts";
import { buildApr1, buildWrapper, f32, lz4Literals } from "../../../../test/builders/apr-layouts.ts";
import { decodeHex } from "../../../base/text.ts";

const W = { name: "w", shape: [2], bytes: f32(1, 2) };

/** What aprender 0.19.0 writes for {"model":"t"} and a tensor w of 1 and 2. */
const GOLDEN = decodeHex(
  "415052310d0000007b226d6f64656c223a2274227d010000003c0000005b7b226e616d65223a2277222c226474797065223a22463332222c" +
    "227368617065223a5b325d2c226f6666736574223a302c2273697a65223a387d5d0000803f000000406ec92662",
);

describe("APR1", () => {
  test("opens as aprender wrote it", async () => {
    const bytes = GOLDEN as Uint8Array<ArrayBuffer>;
    expect(bytes.byteLength).toBe(101);
    const model = await openBytes(bytes);
    expect(model.layout).toBe("apr1");
    expect(model.metadata.text("model")).toBe("t");
    expect([...(await model.tensor("w").toFloat32())]).toEqual([1, 2]);
    expect(await faultsOf(bytes)).toEqual([]);
    expect(buildApr1('{"model":"t"}', [W])).toEqual(bytes);
  });

  test("knows its types by name, in any case", async () => {
    const tensors = [
      { name: "h", dtype: "bf16", shape: [2], bytes: new Uint8Array(4) },
      { name: "i", dtype: "I8", shape: [], bytes: new Uint8Array(1) },
      { name: "x", dtype: "complex", shape: [1], bytes: new Uint8Array(8) },
      { name: "y", dtype: "F32", shape: [3], bytes: new Uint8Array(8) },
    ];
    const model = await openBytes(buildApr1("{}", tensors));
    expect(model.tensors.map(({ dtype }) => dtype)).toEqual(["BF16", "I8", "UNKNOWN_255", "UNKNOWN_255"]);
    expect((await faultsOf(buildApr1("{}", tensors))).map(({ code }) => code)).toEqual([
      "format/apr.unknown-type",
      "format/apr.mislabelled",
    ]);
  });

  test("may have neither metadata nor tensors", async () => {
    const model = await openBytes(buildApr1("{}", []));
    expect([model.tensors.length, model.metadata.size]).toEqual([0, 0]);
  });

  test("is refused or reported if it contradicts itself", async () => {
    expect(await refusalOf(buildApr1("{}", [W], { count: 2 }))).toBe("format/apr.index");
    expect(await refusalOf(buildApr1("{}", [W]).slice(0, -5))).toBe("format/apr.tensor-bounds");
    expect((await faultsOf(buildApr1("{}", [W], { crc: "wrong" }))).map(({ code }) => code)).toEqual([
      "integrity/apr.crc",
    ]);
    expect(await survives(buildApr1('{"a":[1,null]}', [W]))).toBeGreaterThan(10);
  });
});

describe("the wrapper", () => {
  const inner = buildApr1('{"model_type":"wrapped"}', [W]);

  test("opens with LZ4 and with zstd frames that do not say their size, under both magics", async () => {
    for (const magic of ["APR2", "APR\0"]) {
      for (const [kind, payload] of [
        [1, lz4Literals(inner)],
        [2, zstdFrame(inner, "unsized")],
      ] as const) {
        const bytes = buildWrapper(magic, kind, inner.byteLength, payload);
        const model = await openBytes(bytes);
        expect(model.layout).toBe("wrapper");
        expect([...(await model.tensor("w").toFloat32())]).toEqual([1, 2]);
        expect(model.metadata.text("model_type")).toBe("wrapped");
        expect(await faultsOf(bytes)).toEqual([]);
      }
    }
  });

  test("finds damage inside by the checksum of the wrapped file", async () => {
    const damaged = inner.slice();
    damaged[inner.byteLength - 6] = 0x55;
    const bytes = buildWrapper("APR\0", 1, inner.byteLength, lz4Literals(damaged));
    expect((await faultsOf(bytes)).map(({ code }) => code)).toEqual(["integrity/apr.crc"]);
  });

  test("is refused if the content is not what the header says", async () => {
    const { byteLength } = inner;
    const notApr1 = new Uint8Array(byteLength);
    expect(await refusalOf(buildWrapper("APR\0", 1, byteLength, lz4Literals(notApr1)))).toBe("format/apr.packed");
    expect(await refusalOf(buildWrapper("APR\0", 2, byteLength + 1, zstdFrame(inner, "unsized")))).toBe(
      "format/zstd.size",
    );
    const huge = buildWrapper("APR\0", 2, 0xffff_ffff, zstdFrame(inner, "unsized"));
    expect(await refusalOf(huge)).toBe("limit/apr.unpacked-bytes");
    expect(await survives(buildWrapper("APR2", 2, byteLength, zstdFrame(inner, "unsized")))).toBeGreaterThan(0);
  });
});
