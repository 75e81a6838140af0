import { describe, expect, it } from "vitest";
import { buildApr } from "../../../test/builders/apr.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { crc32Javascript } from "../../primitives/digest/crc32.ts";
import { aprKind, sniffApr } from "./index.ts";

const ascii = (text: string, length = 80): Bytes =>
  concatBytes([encodeUtf8(text), new Uint8Array(length - text.length)]);

/** A 64-byte header; its CRC-32 covers all bytes except its own four. */
function header64(magic: string, crc: "valid" | "zero" | "wrong"): Bytes {
  const bytes = ascii(`${magic}\u0002`, 80);
  const view = new DataView(bytes.buffer);
  view.setUint32(12, 64, true);
  bytes[64] = 0x7b;
  const before = crc32Javascript(bytes.subarray(0, 40), 0);
  const valid = crc32Javascript(bytes.subarray(44, 64), before);
  view.setUint32(40, crc === "valid" ? valid : crc === "zero" ? 0 : valid ^ 1, true);
  return bytes;
}

/** Kind byte, length, payload. */
function wrapper(magic: string, kind: 1 | 2, length: number): Bytes {
  const bytes = ascii(magic);
  const view = new DataView(bytes.buffer);
  view.setUint8(4, kind);
  view.setUint32(5, length, true);
  if (kind === 1) view.setUint32(9, length, true);
  else bytes.set([0x28, 0xb5, 0x2f, 0xfd], 9);
  return bytes;
}

describe("aprKind", () => {
  it.each<[string, Bytes, ReturnType<typeof aprKind>]>([
    ["the specification's layout", buildApr(), "spec"],
    ["the same of a version to come", buildApr({ version: [3, 0] }), "spec"],
    ["APR2 with a 64-byte header", header64("APR2", "valid"), "aprender-2025"],
    ["the same with a damaged header", header64("APR2", "wrong"), "aprender-2025"],
    ["an LZ4 wrapper of the first kind", wrapper("APR2", 1, 1000), "wrapper"],
    ["a zstd wrapper of the first kind", wrapper("APR2", 2, 1000), "wrapper"],
    ["the current layout", header64("APR\0", "valid"), "aprender"],
    ["realizar's, without a header CRC", header64("APR\0", "zero"), "aprender"],
    ["a zstd wrapper that begins like a header", wrapper("APR\0", 2, 0x0400), "wrapper"],
    ["an LZ4 wrapper", wrapper("APR\0", 1, 7), "wrapper"],
    ["APR1 with JSON", ascii("APR1\u0010\0\0\0{"), "apr1"],
    ["APR1 of whisper.apr", ascii("APR1\u0001\0\0\0\u0001"), "whisper"],
    ["APRN", ascii("APRN\u0001\0"), "aprn"],
    ["APRN with a 64-byte header", header64("APRN", "valid"), "aprender-2025"],
    ["a writer with the wrong byte order", ascii("2RPA"), "byte-swapped"],
    ["an encrypted container", ascii("ALBR-ENC"), "encrypted-container"],
    ["a bundle", ascii("APBUNDLE"), "bundle"],
    ["another letter", ascii("APRX"), "unknown-magic"],
    ["another format", ascii("GGUF"), undefined],
  ])("knows %s", (_, bytes, kind) => {
    expect(aprKind(bytes)).toBe(kind);
  });

  it("tells a manifest from the index of SafeTensors shards", () => {
    const kind = (value: unknown) => aprKind(encodeUtf8(JSON.stringify(value, undefined, 2)));
    expect(kind({ apr_version: "2.0.0", shards: [] })).toBe("manifest");
    expect(kind({ shard_count: 1, shards: [], weight_map: { "a.b": 0 } })).toBe("manifest");
    expect(kind({ shard_count: 1, shards: 1, weight_map: { "a.b": "x-00001.safetensors" } })).toBeUndefined();
    expect(kind({ metadata: {}, weight_map: { a: "b" } })).toBeUndefined();
  });
});

describe("sniffApr", () => {
  const sniff = (bytes: Bytes) => sniffApr({ bytes, byteLength: bytes.byteLength, name: "x" });

  it("lets the name decide if only the beginning looks like the magic", () => {
    expect(sniff(encodeUtf8("APR"))).toBe("possible");
    expect(sniff(encodeUtf8("A"))).toBe("possible");
    expect(sniff(encodeUtf8("APRIL is the cruellest month"))).toBe("possible");
    expect(sniff(encodeUtf8("AP2R"))).toBe("no");
    expect(sniff(buildApr())).toBe("yes");
  });
});
