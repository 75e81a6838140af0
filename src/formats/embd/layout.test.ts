import { describe, expect, test } from "vitest";
import { buildEmbd, buildStream, f32, setU32, u32 } from "../../../test/builders/embd.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { loadFixture } from "../../../test/support/fixtures.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import { openSource } from "../../open.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { sniffEmbd } from "./index.ts";
import { detectLayout } from "./layout.ts";
import { openEmbd } from "./read.ts";

const detect = (bytes: Bytes, byteLength = bytes.byteLength) => detectLayout({ bytes, byteLength });
const sniff = (bytes: Bytes, name = "x") => sniffEmbd({ bytes, byteLength: bytes.byteLength, name });
const context = { engine: portableEngine(), limits: {} };
const EIGHT = [0x45, 0x4d, 0x42, 0x44, 1, 0, 0, 0];

describe("detectLayout()", () => {
  test.each([
    ["tiny", "spec"],
    ["unaligned", "spec"],
    ["empty", "spec"],
    ["stream", "stream"],
    ["stream-bert-turned", "stream"],
    ["adr", "adr"],
    ["adr-relative", "adr"],
  ] as const)("%s begins like the others and is %s", async (name, layout) => {
    const bytes = loadFixture("embd", name);
    expect([...bytes.subarray(0, 8)]).toEqual(EIGHT);
    expect(detect(bytes)).toEqual({ layout, certainty: "certain" });
    expect(await sniff(bytes)).toBe("yes");
  });
  test("rule 1: total and end magic suffice if the header checksum is zero or wrong", () => {
    const bytes = loadFixture("embd", "tiny").slice();
    setU32(bytes, 56, 0);
    expect(detect(bytes)?.layout).toBe("spec");
    setU32(bytes, 56, 1);
    expect(detect(bytes)).toEqual({ layout: "spec", certainty: "certain" });
    bytes[bytes.byteLength - 8] = 0;
    expect(detect(bytes)?.certainty).toBe("doubtful");
  });
  test("rule 2: the header checksum suffices if the file is truncated or too long", () => {
    const tiny = loadFixture("embd", "tiny");
    expect(detect(tiny.slice(0, 100))).toEqual({ layout: "spec", certainty: "certain" });
    expect(detect(concatBytes([tiny, u32(1)]))).toEqual({ layout: "spec", certainty: "certain" });
    expect(detect(tiny.slice(0, 64))).toEqual({ layout: "spec", certainty: "certain" });
    expect(detect(tiny.slice(0, 63))).toBeUndefined();
  });
  test("rule 3: the table's length follows from the count, and its first name is readable", () => {
    const adr = loadFixture("embd", "adr").slice();
    adr[20] = 0x41; // after the zero that ends the name
    expect(detect(adr)?.layout).not.toBe("adr");
    const cut = loadFixture("embd", "adr").slice(0, 100);
    expect(detect(cut)?.layout).not.toBe("adr");
  });
  test("rule 4: name, dimensions and the first tensor must fit", () => {
    const tensors = [{ name: "layer", shape: [2, 2], values: [1, 2, 3, 4] }];
    const bytes = buildStream(tensors, []);
    expect(detect(bytes)).toEqual({ layout: "stream", certainty: "certain" });
    expect(detect(bytes.slice(0, -8))).toBeUndefined();
    expect(detect(buildStream([{ name: "a\nb", shape: [1], values: [1] }], []))).toBeUndefined();
    expect(detect(buildStream([{ name: "a", shape: [], values: [1] }], []))).toBeUndefined();
    expect(detect(buildStream([{ name: "a", shape: [1, 1, 1, 1, 1], values: [1] }], []))).toBeUndefined();
  });
  test("rule 5: a header with broken totals makes the layout doubtful", async () => {
    const bytes = loadFixture("embd", "tiny").slice();
    setU32(bytes, 48, 12345);
    expect(detect(bytes)).toEqual({ layout: "spec", certainty: "doubtful" });
    expect(await sniff(bytes)).toBe("possible");
  });
  test("a stream without tensors is opened on request only", async () => {
    const bytes = concatBytes([Uint8Array.from(EIGHT), u32(0, 1), u32(1), encodeUtf8("a")]);
    expect(await sniff(bytes)).toBe("possible");
    const model = await openEmbd(memorySource(bytes), context, { layout: "stream" });
    expect(model.tensors).toEqual([]);
    expect(model.metadata.get("vocabulary.tokens")).toMatchObject({ type: "array", length: 1 });
  });
  test("foreign files with the same letters are refused without a crash", async () => {
    for (const rest of [
      new Uint8Array(0),
      u32(384, 7),
      new Uint8Array(200),
      f32(...Array(50).fill(0.5)),
      new Uint8Array(100).fill(255),
    ]) {
      const bytes = concatBytes([encodeUtf8("EMBD"), rest]);
      expect(await sniff(bytes)).toBe("possible");
      await expect(openSource(memorySource(bytes, "x.weights"))).rejects.toMatchObject({
        code: expect.stringMatching(/^(unsupported\/embd\.(layout|version)|format\/embd\.too-short)$/),
      });
      await expect(openSource(memorySource(bytes, "x.bin"))).rejects.toMatchObject({ code: "unsupported/unknown" });
    }
    expect(await sniff(encodeUtf8("EM"))).toBe("possible");
    expect(await sniff(encodeUtf8("EMX"))).toBe("no");
    expect(await sniff(encodeUtf8("DBMExxxxxxxxxxxxxxxx"))).toBe("no");
  });
  test("the byte-swapped magic of ADR-002 is only for lenient readers", async () => {
    const bytes = loadFixture("embd", "adr").slice();
    bytes.set(encodeUtf8("DBME"));
    expect(await sniff(bytes)).toBe("possible");
    await expect(openEmbd(memorySource(bytes), context)).rejects.toMatchObject({ code: "unsupported/embd.layout" });
    const model = await openEmbd(memorySource(bytes), context, { leniency: "lenient" });
    expect(await model.tensor("b").toFloat32()).toEqual(Float32Array.of(1, 2, 3));
  });
  test("a lenient reader opens a file with wrong totals and a wrong checksum", async () => {
    const bytes = loadFixture("embd", "tiny").slice();
    for (const total of [12345, 100]) {
      setU32(bytes, 48, total);
      await expect(openEmbd(memorySource(bytes), context)).rejects.toMatchObject({
        code: "integrity/embd.header-checksum",
      });
      const model = await openEmbd(memorySource(bytes), context, { leniency: "lenient" });
      expect(await model.tensor("w").toFloat32(), String(total)).toEqual(Float32Array.of(0, 1, 2, 3, 4, 5));
    }
  });
});

describe("reads of opening", () => {
  const weights = { name: "w", dtype: 8, shape: [1 << 20], bytes: new Uint8Array(1 << 20) };
  test("a large file takes one read beyond the head, or none", async () => {
    const source = countingSource(memorySource(buildEmbd({ tensors: [weights] }), "x.weights"));
    await openSource(source);
    expect(source.calls).toEqual([{ kind: "read", offset: 0, byteLength: 256 << 10 }]);
    const tokens = Array.from({ length: 40_000 }, (_, i) => `token${i}`);
    const long = countingSource(memorySource(buildEmbd({ tensors: [weights], tokens }), "x.weights"));
    await openSource(long);
    expect(long.calls).toHaveLength(2);
  });
  test("if checksums are off, the end of a large file decides", async () => {
    const bytes = buildEmbd({ tensors: [weights], flags: 2 });
    const { container } = await openSource(memorySource(bytes, "x.weights"));
    expect(container.format).toBe("embd");
    const cut = bytes.slice();
    cut[bytes.byteLength - 5] = 0;
    const damaged = await openSource(memorySource(cut, "x.weights"));
    const { findings } = await verify(damaged, { level: "quick", engine: context.engine });
    expect(findings).toContainEqual(expect.objectContaining({ severity: "error", code: "format/embd.footer" }));
  });
  test("a stream takes one read for each large tensor", async () => {
    const values = new Float32Array(300_000);
    const tensors = Array.from({ length: 5 }, (_, i) => ({ name: `t${i}`, shape: [300_000], values: [...values] }));
    const small = Array.from({ length: 50 }, (_, i) => ({ name: `s${i}`, shape: [3], values: [1, 2, 3] }));
    const source = countingSource(memorySource(buildStream([...tensors, ...small], []), "x.weights"));
    await openSource(source);
    expect(source.calls.length).toBeLessThanOrEqual(8);
    expect(source.byteCount).toBeLessThan(1 << 20);
  });
});
