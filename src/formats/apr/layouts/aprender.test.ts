import { describe, expect, test } from "vitest";
import { zstdBomb, zstdFrame } from "../../../../test/builders/aero.ts";
import { faultsOf, openBytes, refusalOf, survives } from "../../../../test/builders/apr-layout-reading.ts";
import {
  type AprenderFile,
  buildAprender,
  f32,
  lz4Literals,
  packAfterHeader,
  ROW_MAJOR,
  type WildTensor,
} from "../../../../test/builders/apr-layouts.ts";
import { writerById } from "../../../../test/builders/loaded-formats.ts";
import { memorySource } from "../../../bytes/memory.ts";
import { openSource } from "../../../open.ts";
import { planConversion } from "../../../operations/convert.ts";
import { mapLayout } from "../../../operations/map.ts";
import { portableEngine } from "../../../primitives/portable.ts";

const spec = writerById("apr");
const A: WildTensor = { name: "a", dtype: 0, shape: [2, 2], bytes: f32(1, 2, 3, 4) };
const B: WildTensor = { name: "b", dtype: 0, shape: [3], bytes: f32(5, 6, 7) };

const build = (file: AprenderFile = {}): ReturnType<typeof buildAprender> =>
  buildAprender({ tensors: [A, B], ...file });

describe("the 64-byte layout", () => {
  test("gives tensors and metadata under every magic it has had", async () => {
    for (const [magic, layout] of [
      ["APR\0", "aprender"],
      ["APR2", "aprender-2025"],
      ["APRN", "aprender-2025"],
    ] as const) {
      const model = await openBytes(build({ magic, metadata: '{"model_type":"t","n":1}' }));
      expect(model.layout).toBe(layout);
      expect(model.tensors.map(({ name, dtype, shape }) => [name, dtype, shape])).toEqual([
        ["a", "F32", [2, 2]],
        ["b", "F32", [3]],
      ]);
      expect([...(await model.tensor("b").toFloat32())]).toEqual([5, 6, 7]);
      expect(model.metadata.number("n")).toBe(1);
      expect(model.warnings).toEqual([]);
    }
    expect(await faultsOf(build())).toEqual([]);
  });

  test("says which flags a conversion leaves behind", async () => {
    const behind = async (flags: number, more: AprenderFile = {}): Promise<readonly string[] | undefined> =>
      (await openBytes(build({ flags, ...more }))).staysBehind;
    expect(await behind(ROW_MAJOR)).toEqual([]);
    const [said, ...others] = (await behind(ROW_MAJOR | 0x1f8)) ?? [];
    expect(others).toEqual([]);
    expect(said).toContain("SIGNED, SHARDED, QUANTIZED, HAS_FILTERBANK, HAS_MODEL_CARD, STREAMING");
    // What follows from metadata is said again by the writer.
    expect(await behind(ROW_MAJOR | 0x200, { metadata: '{"vocab":["a"]}' })).toEqual([]);
    expect(await behind(ROW_MAJOR | 0x200)).toHaveLength(1);
    const conversion = planConversion(
      await openSource(memorySource(build({ flags: 0x10 })), { engine: portableEngine() }),
      spec,
      {
        name: "x.apr",
        formats: [spec],
      },
    );
    expect(conversion.plan.notes).toContainEqual(expect.stringContaining("SHARDED"));
  });

  test("finds damage by the checksum, and says what follows it", async () => {
    const damaged = build();
    damaged[260] = (damaged[260] as number) ^ 1;
    expect((await faultsOf(damaged)).map(({ code }) => code)).toEqual(["integrity/apr.crc"]);
    const longer = new Uint8Array([...build(), 1, 2, 3, 4, 5]);
    const [trailing] = await faultsOf(longer);
    expect(trailing).toMatchObject({ code: "format/apr.trailing-bytes", message: "5 bytes follow the checksum" });
    expect((await faultsOf(build().slice(0, -1))).map(({ code }) => code)).toEqual(["format/apr.footer"]);
  });

  test("accepts files without a footer from realizar only", async () => {
    const open = await openBytes(build({ footer: "absent" }));
    expect(open.warnings.map(({ code }) => code)).toEqual(["format/apr.no-footer"]);
    expect(await faultsOf(build({ footer: "absent" }))).toEqual([]);
    const old = await faultsOf(build({ footer: "absent", magic: "APR2" }));
    expect(old.map(({ code }) => code)).toEqual(["format/apr.no-footer"]);
  });

  test("notices a tensor that includes the checksum", async () => {
    const bytes = buildAprender({ tensors: [{ ...A, shape: [17], size: 68, bytes: f32(...Array(16).fill(1)) }] });
    expect((await openBytes(bytes)).tensor("a").byteLength).toBe(68);
    expect((await faultsOf(bytes)).map(({ code }) => code)).toEqual(["format/apr.tensor-bounds"]);
  });

  test("refuses a wrong header CRC, tolerates a missing one", async () => {
    expect(await refusalOf(build({ headerCrc: "wrong" }))).toBe("integrity/apr.header-crc");
    const { warnings } = await openBytes(build({ headerCrc: "zero" }));
    expect(warnings.map(({ code }) => code)).toEqual(["format/apr.no-header-crc"]);
  });

  test("refuses values that cannot be right", async () => {
    expect(await refusalOf(build({ version: [3, 0] }))).toBe("unsupported/apr.version");
    expect(await refusalOf(build({ flags: 0x0c00 }))).toBe("unsupported/apr.column-major");
    expect(await refusalOf(build({ tensorCount: 0xffffffff }))).toBe("format/apr.index");
    expect(await refusalOf(build({ dataOffset: 1_000_000 }))).toBe("format/apr.tensor-bounds");
    expect(await refusalOf(build({ metadata: "[]" }))).toBe("format/apr.metadata");
    expect(await refusalOf(build({ tensors: [A, A] }))).toBe("format/apr.duplicate-name");
    expect(await refusalOf(build({ tensors: [{ ...A, offset: 2n ** 64n - 8n }] }))).toBe("limit/integer");
    expect(await refusalOf(build({ tensors: [{ ...A, shape: [2n ** 63n, 4] }] }))).toBe("limit/integer");
    expect(await refusalOf(build({ tensors: [{ ...A, shape: Array(9).fill(1) }] }))).toBe("limit/apr.dimensions");
  });

  test("reports odd versions, flags, order, overlap and names", async () => {
    const codes = async (file: AprenderFile): Promise<string[]> =>
      (await openBytes(build(file))).warnings.map(({ code }) => code);
    expect(await codes({ version: [2, 1] })).toEqual(["format/apr.minor-version"]);
    expect(await codes({ flags: 0x8408 })).toEqual(["format/apr.unknown-flags", "format/apr.idle-flag"]);
    expect(await codes({ tensors: [B, A] })).toEqual(["format/apr.unsorted"]);
    expect(await codes({ tensors: [A, { ...B, offset: 8 }] })).toContain("format/apr.overlap");
    const cut = Uint8Array.of(0x6f, 0xe9);
    const model = await openBytes(build({ tensors: [{ ...A, name: cut }] }));
    expect(model.tensors[0]?.name).toBe("o\ufffd");
    expect(model.warnings.map(({ code }) => code)).toEqual(["format/apr.name-utf8"]);
    expect(await codes({ metadata: '{"a":1,"a":2}' })).toEqual(["format/apr.duplicate-key"]);
  });

  test("calls offsets beyond the end of a file without tensors a fault, and maps nothing there", async () => {
    const far = (field: number): Uint8Array<ArrayBuffer> => {
      const bytes = build({ tensors: [], headerCrc: "zero" });
      new DataView(bytes.buffer).setBigUint64(field, 2n ** 32n + 1n, true);
      return bytes;
    };
    for (const [field, path] of [
      [24, "tensor_index_offset"],
      [32, "data_offset"],
    ] as const) {
      const bytes = far(field);
      const opened = await openSource(memorySource(bytes, "model.apr"));
      const rows = mapLayout(opened);
      expect(rows.reduce((sum, { byteLength }) => sum + byteLength, 0)).toBe(bytes.byteLength);
      const found = (await faultsOf(bytes)).filter(({ at }) => at.path === path);
      expect(found).toMatchObject([{ severity: "error", code: "format/apr.truncated", at: { offset: field } }]);
    }
  });

  test("never crashes on damage", async () => {
    expect(await survives(build({ tensors: [] }))).toBeGreaterThan(100);
    expect(await survives(build())).toBeGreaterThan(100);
  });
});

describe("the compression flags", () => {
  const raw = build();
  const body = raw.slice(64);

  test("mean nothing if the metadata can be read uncompressed", async () => {
    const model = await openBytes(build({ flags: ROW_MAJOR | 3 }));
    expect([...(await model.tensor("a").toFloat32())]).toEqual([1, 2, 3, 4]);
    expect(await faultsOf(build({ flags: ROW_MAJOR | 1 }))).toEqual([]);
  });

  test("mean that everything after the header is compressed, as realizar reads it", async () => {
    for (const packed of [
      packAfterHeader(raw, 1, lz4Literals(body)),
      packAfterHeader(raw, 2, zstdFrame(body, "unsized")),
      packAfterHeader(raw, 2, zstdFrame(body)),
    ]) {
      const model = await openBytes(packed);
      expect([...(await model.tensor("b").toFloat32())]).toEqual([5, 6, 7]);
      expect(model.parts[0]?.layout).toBe("unplaced");
      // The footer was made before the flag was set.
      expect(await faultsOf(packed)).toEqual([]);
      const damaged = packed.slice();
      damaged[packed.byteLength - 80] = 0xff;
      expect((await faultsOf(damaged)).map(({ code }) => code)).toEqual(["integrity/apr.crc"]);
    }
  });

  test("do not let a small file become a large one", async () => {
    const bomb = packAfterHeader(raw, 2, zstdBomb(1 << 22, undefined));
    expect(await refusalOf(bomb, { apr: { unpackedBytes: 1 << 20 } })).toMatch(/^limit\//);
    expect(await refusalOf(packAfterHeader(raw, 1, lz4Literals(body, 0xffff_ffff)))).toBe("limit/apr.unpacked-bytes");
    expect(await refusalOf(packAfterHeader(raw, 1, lz4Literals(body, 1 << 28)))).toBe("format/apr.packed");
    expect(await refusalOf(packAfterHeader(raw, 1, lz4Literals(body, body.byteLength + 1)))).toBe("format/lz4.block");
    expect(await refusalOf(packAfterHeader(raw, 1, Uint8Array.of(1, 2)))).toBe("format/apr.packed");
  });
});

describe("files of realizar", () => {
  const q4k = { name: "q", dtype: 8, shape: [1, 256], bytes: new Uint8Array(144) };

  test("have other types under the ids that aprender uses", async () => {
    const typeOf = async (file: AprenderFile): Promise<string | undefined> =>
      (await openBytes(buildAprender({ tensors: [q4k], ...file }))).tensors[0]?.dtype;
    expect(await typeOf({})).toBe("APR_Q4");
    expect(await typeOf({ flags: 0 })).toBe("APR_Q4");
    expect(await typeOf({ flags: 0x20, footer: "absent" })).toBe("Q4_K");
    expect(await typeOf({ flags: 0, footer: "absent", headerCrc: "zero" })).toBe("Q4_K");
    const metadata = '{"model_type":"transformer_lm_q4k"}';
    expect(await typeOf({ flags: 0, footer: "absent", metadata })).toBe("Q4_K");
    expect(await typeOf({ flags: 0x20 })).toBe("APR_Q4");
  });

  test("may have a JSON index, and one tensor that is JSON", async () => {
    const bytes = new TextEncoder().encode('{"config":{}}');
    const jsonIndex = `[{"name":"weights","dtype":"json","shape":[${bytes.length}],"offset":0,"size":${bytes.length}}]`;
    const tensors = [{ name: "", dtype: 0, shape: [], bytes }];
    const file: AprenderFile = { flags: 0, footer: "absent", headerCrc: "zero", jsonIndex, tensors };
    const model = await openBytes(buildAprender(file));
    expect(model.layout).toBe("realizar-json");
    expect(model.tensor("weights")).toMatchObject({ dtype: "U8", shape: [13] });
    expect(new TextDecoder().decode(await model.tensor("weights").bytes())).toBe('{"config":{}}');
    expect(await survives(buildAprender(file))).toBeGreaterThan(0);
    const bad = jsonIndex.replace('"offset":0', '"offset":-1');
    expect(await refusalOf(buildAprender({ ...file, jsonIndex: bad }))).toBe("format/apr.index");
  });
});
