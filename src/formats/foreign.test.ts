import { describe, expect, test } from "vitest";
import { buildGguf, byteTensor, text } from "../../test/builders/gguf.ts";
import { type Bytes, concatBytes } from "../base/bytes.ts";
import { encodeUtf8 } from "../base/text.ts";
import { memorySource } from "../bytes/memory.ts";
import { openSource } from "../open.ts";

const open = (bytes: Bytes, name: string) => openSource(memorySource(bytes, name), { name });

const utf16 = (content: string): Bytes => {
  const codes = Uint16Array.from(`\ufeff${content}`, (c) => c.charCodeAt(0));
  return new Uint8Array(codes.buffer);
};

/** A zip archive whose first file has this name; nothing looks further. */
function zip(firstName: string): Bytes {
  const name = encodeUtf8(firstName);
  const head = new Uint8Array(30);
  head.set([0x50, 0x4b, 3, 4, 20]);
  head[26] = name.byteLength;
  return concatBytes([head, name, new Uint8Array(64)]);
}

describe("content that is not ours is named, whatever its name", () => {
  test.each<[string, Bytes]>([
    ["text", encodeUtf8("These are my notes.\nNothing else is in here.\n".repeat(300))],
    ["text", encodeUtf8("ä".repeat(4000))],
    ["text", encodeUtf8(`x${"ä".repeat(4000)}`)],
    ["utf-16", utf16("notes, saved by an editor\r\n")],
    ["utf-16", Uint8Array.of(0xfe, 0xff, 0, 0x6e, 0, 0x6f)],
    ["flax", concatBytes([Uint8Array.of(0x81, 0xa6), encodeUtf8("params"), Uint8Array.of(0x81, 0xa5)])],
    ["flax", concatBytes([Uint8Array.of(0xde, 0, 40, 0xa3), encodeUtf8("wte"), Uint8Array.of(0x81)])],
    ["rar", concatBytes([encodeUtf8("Rar!\u001a\u0007"), Uint8Array.of(1, 0, 9, 9)])],
    ["sqlite", concatBytes([encodeUtf8("SQLite format 3\0"), new Uint8Array(84)])],
    ["parquet", concatBytes([encodeUtf8("PAR1"), new Uint8Array(100), encodeUtf8("PAR1")])],
    ["openvino", encodeUtf8('<?xml version="1.0"?>\n<net name="a" version="11"><layers/></net>')],
    ["openvino", encodeUtf8('<net name="a" version="10"></net>')],
    ["xml", encodeUtf8('<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>')],
    ["coreml", Uint8Array.of(8, 5, 0x12, 9, 0x0a, 7, 0x0a, 5, 0x69, 0x6e, 0x70, 0x75, 0x74)],
    ["coreml", Uint8Array.of(8, 9, 0x12, 0x80, 0x02, 0x0a, 7, 0x0a, 5, 0x69, 0x6e, 0x70)],
    ["npz", zip("arr_0.npy")],
    ["pytorch", zip("archive/data.pkl")],
    ["pytorch", zip("model/.format_version")],
    ["zip", zip("readme.txt")],
    ["zip", zip("data.pkl.txt")],
  ])("%s", async (id, bytes) => {
    for (const name of ["model.safetensors", "model.gguf", "model"]) {
      await expect(open(bytes, name)).rejects.toMatchObject({ code: `unsupported/foreign.${id}` });
    }
  });

  test("advice for PyTorch is given for PyTorch alone", async () => {
    for (const name of ["arr_0.npy", "readme.txt"]) {
      const error: Error & { readonly hint?: string } = await open(zip(name), "m.bin").catch((e) => e);
      expect(`${error.message} ${error.hint}`).not.toMatch(/pytorch|pickle/i);
    }
  });
});

/** A GGUF with a template of several lines, whose line feeds are the only ones in it. */
const lines = buildGguf({
  kvs: [
    { key: "general.architecture", type: 8, value: text("llama") },
    { key: "tokenizer.chat_template", type: 8, value: text("one\ntwo\nthree\nfour\n") },
  ],
  tensors: [byteTensor("a.weight", 4096, 0)],
  data: new Uint8Array(4096).fill(1),
});

const asText = (bytes: Bytes): Bytes =>
  Uint8Array.from([...bytes].flatMap((byte) => (byte === 0x0a ? [0x0d, 0x0a] : [byte])));

describe("what a transfer did to a file", () => {
  test.each(["model.safetensors", "model.gguf", "model"])("%s of nothing but zeros", async (name) => {
    await expect(open(new Uint8Array(50_000), name)).rejects.toMatchObject({
      code: "format/zeros",
      message: "Cannot open: all 50000 bytes are zero",
      hint: expect.stringContaining("get the file again"),
    });
    await expect(open(new Uint8Array(3 << 20), name)).rejects.toMatchObject({
      code: "format/zeros",
      message: expect.stringMatching(/the first \d+ bytes are zero/),
    });
  });

  test("line ends that were changed", async () => {
    await expect(open(asText(lines), "m.gguf")).rejects.toMatchObject({
      code: "format/line-ends",
      at: { offset: asText(lines).indexOf(0x0d) },
      hint: expect.stringContaining("binary"),
    });
  });

  test("bytes that a decoder of text replaced", async () => {
    const whole = buildGguf({
      kvs: [{ key: "tokenizer.chat_template", type: 8, value: text("x".repeat(200)) }],
      tensors: [byteTensor("a.weight", 4096, 0)],
      data: Uint8Array.from({ length: 4096 }, (_, i) => (i * 37) & 0xff),
    });
    const mangled = new TextEncoder().encode(new TextDecoder().decode(whole));
    await expect(open(mangled, "m.gguf")).rejects.toMatchObject({
      code: "format/text-damage",
      hint: expect.stringContaining("binary"),
    });
  });

  test("a file that fails for another reason keeps its reason", async () => {
    const damaged = lines.slice();
    damaged[4] = 9;
    await expect(open(damaged, "m.gguf")).rejects.toMatchObject({ code: "unsupported/gguf.version" });
    const counts = lines.slice();
    counts.fill(0xff, 16, 24);
    await expect(open(counts, "m.gguf")).rejects.not.toMatchObject({ code: "format/line-ends" });
  });

  test("zeros from every byte of a GGUF header on are told, or the data that no tensor claims", async () => {
    const headerEnd = lines.byteLength - 4096;
    for (let at = 9; at < headerEnd - 40; at++) {
      const bytes = lines.slice();
      bytes.fill(0, at);
      const found = await open(bytes, "m.gguf").then(
        ({ container }) => (container.kind === "model" ? container.warnings.map(({ code }) => code) : []),
        (error) => [`${error.code}: ${error.hint}`],
      );
      expect(found.join(), `zeros from ${at} on`).toMatch(/zero|trailing-bytes/);
    }
  });
});
