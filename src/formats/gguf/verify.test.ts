import { expect, test } from "vitest";
import { array, type BuiltFile, buildGguf, byteTensor, text, u8 } from "../../../test/builders/gguf.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Finding } from "../../model/finding.ts";
import type { VerifyLevel } from "../../model/format.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { GgufModel } from "./model.ts";
import { ggufSections, openGguf } from "./read.ts";
import { verifyGguf } from "./verify.ts";

const engine = portableEngine();

async function verifyBuilt(
  file: BuiltFile,
  level: VerifyLevel,
): Promise<{ findings: Finding[]; counts: Map<string, number> }> {
  const model = await openGguf(memorySource(buildGguf(file), "file"), { engine, limits: {} });
  const counts = new Map<string, number>();
  const count = (what: string, by = 1): void => void counts.set(what, (counts.get(what) ?? 0) + by);
  const findings: Finding[] = [];
  for await (const finding of verifyGguf(model, { engine, limits: {}, level, count })) findings.push(finding);
  return { findings, counts };
}

const bad = text(Uint8Array.of(0xc3, 0x28));
const tensors = [byteTensor("a", 40, 0), byteTensor("b", 10, 64)];

test("verifyGguf() reports strings that are not UTF-8 and odd booleans at the control level", async () => {
  const kvs = [
    { key: "fine", type: 9, value: array(8, [text("a"), text("b")]) },
    { key: "text", type: 8, value: bad },
    { key: "list", type: 9, value: array(8, [text("a"), bad, bad]) },
    { key: "nested", type: 9, value: array(9, [array(8, [bad])]) },
    { key: "flag", type: 7, value: u8(2) },
    { key: "flags", type: 9, value: array(7, [u8(0), u8(1), u8(255)]) },
  ];
  const { findings, counts } = await verifyBuilt({ kvs }, "control");
  expect(findings.map(({ severity, code, name }) => [severity, code, name])).toEqual([
    ["warning", "format/gguf.string-utf8", "text"],
    ["warning", "format/gguf.string-utf8", "list"],
    ["warning", "format/gguf.string-utf8", "nested"],
    ["note", "format/gguf.bool", "flag"],
    ["note", "format/gguf.bool", "flags"],
  ]);
  expect(findings[1]?.message).toBe('Metadata "list": 2 of 3 strings are not valid UTF-8; the bytes are kept');
  expect(counts.get("keys")).toBe(6);
  expect((await verifyBuilt({ kvs }, "quick")).findings).toEqual([]);
});

test("verifyGguf() looks up the place of each key once, and can be stopped", async () => {
  const kvs = Array.from({ length: 20_000 }, (_, i) => ({ key: `k${i}`, type: 7, value: u8(2) }));
  const model = await openGguf(memorySource(buildGguf({ kvs }), "file"), { engine, limits: {} });
  const [{ source, header }] = model.files;
  let looks = 0;
  const keyValues = new Proxy(header.keyValues, {
    get(list, property, receiver) {
      if (typeof property === "string" && /^\d+$/.test(property)) looks++;
      return Reflect.get(list, property, receiver);
    },
  });
  const files = [{ source, header: { ...header, keyValues } }] as const;
  const counted = new GgufModel({ files, metadata: model.metadata, warnings: [] });
  const context = { engine, limits: {}, level: "control", count: () => undefined } as const;
  const offsets: (number | undefined)[] = [];
  for await (const { at } of verifyGguf(counted, context)) offsets.push(at.offset);
  expect(offsets).toEqual(header.keyValues.map(({ valueOffset }) => valueOffset));
  expect(looks).toBe(20_000);
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error("asked to stop")), 0);
  const stopped = async (): Promise<void> => {
    for await (const _ of verifyGguf(counted, { ...context, signal: stop.signal }));
  };
  await expect(stopped()).rejects.toThrow("asked to stop");
});

test("verifyGguf() checks every padding byte at the full level", async () => {
  const data = new Uint8Array(96);
  expect((await verifyBuilt({ tensors, data }, "full")).findings).toEqual([]);
  for (const [position, offset] of [
    [40, 96 + 40],
    [63, 96 + 63],
    [74, 96 + 74],
    [95, 96 + 95],
  ] as const) {
    const dirty = data.slice();
    dirty[position] = 0xaa;
    const { findings } = await verifyBuilt({ tensors, data: dirty }, "full");
    expect(findings).toMatchObject([{ severity: "note", code: "format/gguf.padding", at: { source: "file", offset } }]);
    expect((await verifyBuilt({ tensors, data: dirty }, "control")).findings).toEqual([]);
  }
  // Weights are not padding.
  const weights = data.slice().fill(1, 0, 40);
  expect((await verifyBuilt({ tensors, data: weights }, "full")).findings).toEqual([]);
});

test("ggufSections() names everything but the tensors", async () => {
  const kvs = [{ key: "general.architecture", type: 8, value: text("x") }];
  const model = await openGguf(memorySource(buildGguf({ kvs, tensors, data: new Uint8Array(96) })), {
    engine,
    limits: {},
  });
  expect(ggufSections(model)).toEqual([
    { name: "header", kind: "header", part: 0, offset: 0, byteLength: 24 },
    { name: "general.architecture", kind: "metadata", part: 0, offset: 24, byteLength: 41 },
    { name: "tensor infos", kind: "index", part: 0, offset: 65, byteLength: 66 },
    { name: "padding", kind: "padding", part: 0, offset: 131, byteLength: 29 },
    { name: "padding", kind: "padding", part: 0, offset: 200, byteLength: 24 },
    { name: "padding", kind: "padding", part: 0, offset: 234, byteLength: 22 },
  ]);
});
