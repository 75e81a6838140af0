import { expect, test } from "vitest";
import { map, pack, zstdFrame } from "../../../../test/builders/aero.ts";
import { faultsOf, openBytes, refusalOf, survives } from "../../../../test/builders/apr-layout-reading.ts";
import { buildAprn, lz4Literals } from "../../../../test/builders/apr-layouts.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { readAprnPayload } from "./aprn.ts";

const PAYLOAD = Uint8Array.from({ length: 40 }, (_, i) => i * 3);
const context = { engine: portableEngine(), limits: {} };

test("APRN opens as header and metadata, without tensors", async () => {
  const metadata = pack(map({ model_name: "m", license: map({ seats: 3, tier: "Team" }), list: [1, null, true] }));
  const bytes = buildAprn({ metadata, payload: PAYLOAD, flags: 8 });
  const model = await openBytes(bytes);
  expect([model.layout, model.tensors.length]).toEqual(["aprn", 0]);
  expect(model.metadata.text("model_name")).toBe("m");
  expect(model.metadata.get("license")).toEqual({
    type: "map",
    entries: [
      { key: "seats", value: { type: "u64", value: 3 } },
      { key: "tier", value: { type: "string", value: "Team" } },
    ],
  });
  expect(new Map(model.facts)).toEqual(
    new Map([
      ["layout", "aprender container of 2025 (APRN)"],
      ["model", "k-means"],
      ["payload", "40 bytes, 40 unpacked (none)"],
      ["quality", "85 of 100"],
      ["flags", "LICENSED"],
    ]),
  );
  expect(model.warnings.map(({ code }) => code)).toEqual(["format/apr.aprn-payload"]);
  expect(await faultsOf(bytes)).toEqual([]);
  expect(await survives(bytes)).toBeGreaterThan(40);
});

test("readAprnPayload() unpacks all four compressions", async () => {
  for (const [compression, payload] of [
    [0, PAYLOAD],
    [1, zstdFrame(PAYLOAD, "unsized")],
    [2, zstdFrame(PAYLOAD, "unsized")],
    [3, lz4Literals(PAYLOAD)],
  ] as const) {
    const model = await openBytes(buildAprn({ compression, payload, unpackedSize: PAYLOAD.byteLength }));
    expect(await readAprnPayload(model, context)).toEqual(PAYLOAD);
  }
});

test("readAprnPayload() refuses encrypted payloads, unknown compressions and wrong sizes", async () => {
  const refusal = async (file: Parameters<typeof buildAprn>[0]): Promise<string> =>
    readAprnPayload(await openBytes(buildAprn(file)), context).then(
      () => "read",
      (error: { code: string }) => error.code,
    );
  expect(await refusal({ payload: PAYLOAD, flags: 1 })).toBe("unsupported/apr.aprn-encrypted");
  expect(await refusal({ payload: PAYLOAD, compression: 4 })).toBe("format/apr.packed");
  expect(await refusal({ payload: lz4Literals(PAYLOAD), compression: 3, unpackedSize: 41 })).toBe("format/apr.packed");
  expect(await refusal({ payload: zstdFrame(PAYLOAD), compression: 1, unpackedSize: 41 })).toBe("format/zstd.size");
});

test("APRN is refused if it is cut off or its metadata is no map", async () => {
  expect(await refusalOf(buildAprn({ payload: PAYLOAD }).slice(0, -1))).toBe("format/apr.truncated");
  expect(await refusalOf(buildAprn({ payload: PAYLOAD, metadata: Uint8Array.of(0x91, 0xc0) }))).toBe(
    "format/apr.metadata",
  );
  expect(await refusalOf(buildAprn({ payload: PAYLOAD, flags: 2 }))).toBe("format/apr.truncated");
});
