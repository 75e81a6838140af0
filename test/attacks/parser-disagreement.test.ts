import { describe, expect, test } from "vitest";
import { concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import {
  ggufLikeSafetensors,
  ggufPart,
  overlappingGguf,
  overlappingSafetensors,
  safetensorsWithZip,
  shard,
  twoFacedGguf,
  twoFacedSafetensors,
} from "../builders/crafted-files.ts";
import { buildGguf, byteTensor, text, u32 } from "../builders/gguf.ts";
import { patternBytes, rawSafetensors } from "../builders/safetensors.ts";
import { openBytes, refusalOf } from "./open-bytes.ts";

const codeOf = async (...args: Parameters<typeof refusalOf>): Promise<string> => (await refusalOf(...args)).code;

describe("a file means one thing", () => {
  test("the same name twice is refused", async () => {
    expect(await codeOf(twoFacedSafetensors())).toBe("format/safetensors.duplicate-key");
    expect(await codeOf(twoFacedGguf())).toBe("format/gguf.duplicate-name");
  });
  test("a name is the same however it is escaped", async () => {
    const entry = (name: string, begin: number): string =>
      `"${name}":{"dtype":"U8","shape":[4],"data_offsets":[${begin},${begin + 4}]}`;
    const bytes = rawSafetensors(`{${entry("w", 0)},${entry("\\u0077", 4)}}`, patternBytes(8));
    expect(await codeOf(bytes)).toBe("format/safetensors.duplicate-key");
  });
  test("the same key twice is refused: fields, metadata, index, GGUF keys", async () => {
    const fields = '{"w":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}}';
    expect(await codeOf(rawSafetensors(fields))).toBe("format/safetensors.duplicate-key");
    const metadata = '{"__metadata__":{"a":"1","a":"2"}}';
    expect(await codeOf(rawSafetensors(metadata))).toBe("format/safetensors.duplicate-key");
    const twice = '{"__metadata__":{},"__metadata__":{}}';
    expect(await codeOf(rawSafetensors(twice))).toBe("format/safetensors.duplicate-key");
    const index = encodeUtf8('{"weight_map":{"t0":"a.safetensors","t0":"b.safetensors"}}');
    expect(await codeOf(index)).toBe("format/safetensors.duplicate-key");
    const kvs = ["1", "2"].map((value) => ({ key: "general.name", type: 8, value: text(value) }));
    expect(await codeOf(buildGguf({ kvs }))).toBe("format/gguf.duplicate-key");
  });
  test("the same tensor in two parts of a set is refused", async () => {
    const part = (no: number) =>
      buildGguf({
        kvs: [
          { key: "split.no", type: 4, value: u32(no) },
          { key: "split.count", type: 4, value: u32(2) },
        ],
        tensors: [byteTensor("w", 32, 0)],
        data: patternBytes(32, no),
      });
    const files = new Map([["m-00002-of-00002.gguf", part(1)]]);
    const outcome = openBytes(part(0), "m-00001-of-00002.gguf", files);
    await expect(outcome).rejects.toMatchObject({ code: "format/gguf.duplicate-name" });
    const swapped = openBytes(
      ggufPart(0, 2),
      "m-00001-of-00002.gguf",
      new Map([["m-00002-of-00002.gguf", ggufPart(0, 2)]]),
    );
    await expect(swapped).rejects.toMatchObject({ code: "format/gguf.split" });
  });
  test("tensors that share bytes are refused", async () => {
    expect(await codeOf(overlappingGguf())).toBe("format/gguf.overlap");
    expect(await codeOf(overlappingSafetensors())).toBe("format/safetensors.overlap");
  });
  test("data that belongs to nothing is refused in SafeTensors and told in GGUF", async () => {
    expect(await codeOf(concatBytes([shard(0), patternBytes(1)]))).toBe("format/safetensors.trailing-bytes");
    const hole = '{"w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}';
    expect(await codeOf(rawSafetensors(hole, patternBytes(4)))).toBe("format/safetensors.hole");
    const { container } = await openBytes(concatBytes([ggufPart(0, 1), patternBytes(100)]));
    expect(container.warnings.map(({ code }) => code)).toContain("format/gguf.trailing-bytes");
  });
  test("polyglots are one format for us, whatever they are called", async () => {
    for (const name of ["m.gguf", "m.safetensors", "m"]) {
      expect(await codeOf(safetensorsWithZip(), name)).toBe("format/safetensors.trailing-bytes");
      expect(await codeOf(ggufLikeSafetensors(), name)).toMatch(/^(format\/gguf\.|limit\/integer)/);
    }
    const zipFirst = concatBytes([Uint8Array.of(0x50, 0x4b, 3, 4), new Uint8Array(4), shard(0)]);
    expect(await codeOf(zipFirst, "m.safetensors")).toBe("unsupported/foreign.zip");
  });
  test("what forgiving JSON readers let pass is refused", async () => {
    for (const header of [
      "{} x",
      "{}{}",
      "{}\u0000",
      '{"a":1,}',
      "{'a':1}",
      "{a:1}",
      "\ufeff{}",
      "{}//",
      "[]",
      '{"a":NaN}',
    ]) {
      expect(await codeOf(rawSafetensors(header), "m.safetensors"), header).toMatch(/^(format|unsupported)\//);
    }
    for (const dimension of ["1.0", "1e0", "-0", "01", "+1", "0x1", '"1"', "true", "null"]) {
      const header = `{"w":{"dtype":"U8","shape":[${dimension}],"data_offsets":[0,1]}}`;
      expect(await codeOf(rawSafetensors(header, patternBytes(1))), dimension).toMatch(/^format\//);
    }
  });
});
