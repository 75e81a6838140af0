import { describe, expect, it } from "vitest";
import { APR_METADATA, type BuiltFile, buildApr } from "../../../../test/builders/apr.ts";
import { countingSource } from "../../../../test/support/counting-source.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, TareError } from "../../../base/errors.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { Source } from "../../../bytes/source.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import type { AprModel } from "../model.ts";
import { openApr } from "../read.ts";
import { openSpec } from "./read.ts";

const engine = portableEngine();
const openBytes = (bytes: Bytes, limits = {}): Promise<AprModel> =>
  openApr(memorySource(bytes, "m.apr"), { engine, limits: { apr: limits } });
const open = (file: BuiltFile, limits = {}): Promise<AprModel> => openBytes(buildApr(file), limits);
const codes = (model: AprModel): string[] => model.warnings.map(({ code }) => code);
const bytes = (length: number): Bytes => Uint8Array.from({ length }, (_, i) => i + 1);

async function codeOf(opening: Promise<unknown>): Promise<string> {
  const error: unknown = await opening.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(TareError);
  return (error as TareError).code;
}

describe("header", () => {
  it.each<[string, BuiltFile, string]>([
    ["another major version", { version: [3, 0] }, "unsupported/apr.version"],
    ["metadata beyond the file", { metadataSize: 4000 }, "format/apr.truncated"],
    ["an offset that wraps 32 bits", { metadataOffset: 0xffff_fff0, metadataSize: 0x20 }, "format/apr.truncated"],
    ["an index inside the header", { indexOffset: 8 }, "format/apr.regions"],
    ["an index inside the metadata", { indexOffset: 40 }, "format/apr.regions"],
    ["an index without room for its header", { indexSize: 7 }, "format/apr.index"],
    ["data beyond the file", { dataOffset: 0x4000_0000 }, "format/apr.truncated"],
    ["a writer with the wrong byte order", { magic: "2RPA" }, "format/apr.byte-order"],
  ])("refuses %s", async (_, file, code) => {
    expect(await codeOf(open(file))).toBe(code);
  });

  it("warns of a later minor version, of unknown flags and of flags that are not true", async () => {
    const model = await open({ version: [2, 7], flags: 0x202 | 0x41, tensors: [{ name: "a", data: bytes(3) }] });
    expect(model.version).toBe("2.7");
    expect(codes(model)).toEqual([
      "format/apr.minor-version",
      "format/apr.unknown-flags",
      "format/apr.flags",
      "format/apr.flags",
    ]);
  });

  it("reports truncation and the expected length for every cut", async () => {
    const whole = buildApr({ tensors: [{ name: "a", data: bytes(100) }] });
    for (let length = 32; length < whole.byteLength; length++) {
      const error: unknown = await openBytes(whole.slice(0, length)).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(TareError);
      expect((error as TareError).message, String(length)).toMatch(/truncated/);
    }
  });

  it("notices a wrong end of a file that the first read holds whole", async () => {
    const tensors = [{ name: "a", data: bytes(3) }];
    expect(codes(await open({ tensors, magicEnd: "2RPB" }))).toEqual(["format/apr.footer"]);
    expect(codes(await open({ tensors, fileSize: 2n ** 63n }))).toEqual(["format/apr.file-size"]);
    expect(codes(await open({ tensors, crc: 1 }))).toEqual(["integrity/apr.crc"]);
    const longer = new Uint8Array([...buildApr({ tensors }), 0]);
    expect(codes(await openBytes(longer))).toEqual(["format/apr.footer"]);
  });
});

describe("metadata", () => {
  it.each([
    ["an array", "[]", "format/apr.metadata"],
    ["nothing", "", "format/apr.metadata"],
    ["a byte order mark", "\ufeff{}", "format/apr.metadata"],
    ["half a surrogate pair", '{"a":"\\ud800"}', "format/json.syntax"],
    ["a number beyond a double", '{"a":1e400}', "format/json.syntax"],
    ["text behind the object", "{}x", "format/json.syntax"],
  ])("refuses %s", async (_, metadata, code) => {
    expect(await codeOf(open({ metadata }))).toBe(code);
  });

  it("opens without the required keys", async () => {
    const model = await open({ metadata: "{}" });
    expect(model.metadata.size).toBe(0);
    expect(model.warnings).toEqual([]);
  });

  it("takes the last of two equal keys and says so", async () => {
    const model = await open({ metadata: '{"a":1,"b":2,"a":{"c":1,"c":2}}' });
    expect(model.metadata.entries.map(({ key }) => key)).toEqual(["a", "b"]);
    expect(model.metadata.get("a")).toMatchObject({ type: "map", entries: [{ key: "c", value: { value: 2 } }] });
    expect(codes(model)).toEqual(["format/apr.duplicate-key", "format/apr.duplicate-key"]);
  });

  it("keeps integers that a double cannot hold", async () => {
    const model = await open({ metadata: '{"u":18446744073709551615,"i":-9007199254740993}' });
    expect(model.metadata.get("u")).toMatchObject({ type: "u64", value: 18446744073709551615n });
    expect(model.metadata.get("i")).toMatchObject({ type: "i64", value: -9007199254740993n });
  });

  it("refuses more than it is willing to hold", async () => {
    expect(await codeOf(open({}, { metadataBytes: 10 }))).toBe("limit/apr.metadata-bytes");
    expect(await codeOf(open({ metadata: '{"a":[1,2,3]}' }, { metadataValues: 3 }))).toBe("limit/json.values");
  });
});

describe("index", () => {
  it.each<[string, BuiltFile, string]>([
    ["more entries than fit", { tensorCount: 0xffff_ffff }, "format/apr.index"],
    ["no dimensions", { tensors: [{ name: "a", dims: [], data: bytes(1) }] }, "limit/apr.dimensions"],
    ["nine dimensions", { tensors: [{ name: "a", dims: Array(9).fill(1), data: bytes(1) }] }, "limit/apr.dimensions"],
    ["a dimension of 2^63", { tensors: [{ name: "a", dims: [2n ** 63n, 2] }] }, "limit/integer"],
    ["dimensions that overflow", { tensors: [{ name: "a", dims: [2 ** 40, 2 ** 40] }] }, "format/overflow"],
    ["type 8", { tensors: [{ name: "a", dtype: 8, data: bytes(1) }] }, "unsupported/apr.dtype"],
    ["type 15", { tensors: [{ name: "a", dtype: 15, data: bytes(1) }] }, "unsupported/apr.dtype"],
    ["type 21", { tensors: [{ name: "a", dtype: 21, data: bytes(1) }] }, "unsupported/apr.dtype"],
    ["type 255", { tensors: [{ name: "a", dtype: 255, data: bytes(1) }] }, "unsupported/apr.dtype"],
    ["a name that is no UTF-8", { tensors: [{ name: Uint8Array.of(0xff), data: bytes(1) }] }, "format/apr.name-utf8"],
    ["a name twice", { tensors: [{ name: "a" }, { name: "a" }] }, "format/apr.duplicate-name"],
    ["too few bytes", { tensors: [{ name: "a", dtype: 1, dims: [2], data: bytes(3) }] }, "format/apr.tensor-size"],
    ["too many bytes", { tensors: [{ name: "a", dtype: 6, dims: [2], data: bytes(17) }] }, "format/apr.tensor-size"],
    ["half a block", { tensors: [{ name: "a", dtype: 16, dims: [33], data: bytes(34) }] }, "format/apr.tensor-size"],
    [
      "a huge raw_size",
      { tensors: [{ name: "a", dims: [4], rawSize: 2 ** 40, data: bytes(9) }] },
      "format/apr.tensor-size",
    ],
    ["a tensor behind the end", { tensors: [{ name: "a", data: bytes(4), offset: 4096 }] }, "format/apr.tensor-bounds"],
    ["a tensor in the footer", { tensors: [{ name: "a", data: bytes(4), offset: 1 }] }, "format/apr.tensor-bounds"],
    ["an offset beyond all files", { tensors: [{ name: "a", data: bytes(4), offset: 2n ** 60n }] }, "limit/integer"],
    ["an index cut short", { tensors: [{ name: "a" }], indexSize: 20 }, "format/apr.index"],
  ])("refuses %s", async (_, file, code) => {
    expect(await codeOf(open(file))).toBe(code);
  });

  it("names the tensor and the id of a type it does not know", async () => {
    await expect(open({ tensors: [{ name: "head", dtype: 21, data: bytes(1) }] })).rejects.toThrow(
      'Cannot read tensor "head": dtype must be 0 to 7 or 16 to 20, found 21',
    );
  });

  it("reads scalars if the limits allow them", async () => {
    const model = await open({ tensors: [{ name: "a", dims: [], data: bytes(1) }] }, { leastDimensions: 0 });
    expect(model.tensor("a").shape).toEqual([]);
  });

  it("accepts empty dimensions, odd names, and blocks by row or over the whole tensor", async () => {
    const long = "ü".repeat(32_767);
    const model = await open({
      flags: 0x42,
      tensors: [
        { name: "e", dims: [0, 5] },
        { name: "q33", dtype: 16, dims: [33], data: bytes(68) },
        { name: "rows", dtype: 16, dims: [2, 33], data: bytes(136) },
        { name: "flat", dtype: 16, dims: [2, 33], data: bytes(102) },
        ...["__proto__", "constructor", "toString", long, ""].map((name) => ({ name, data: bytes(2) })),
      ],
    });
    expect(model.tensor("e").byteLength).toBe(0);
    expect(model.tensors.slice(1, 4).map(({ byteLength }) => byteLength)).toEqual([68, 136, 102]);
    for (const name of ["__proto__", "constructor", "toString", long]) {
      expect(await model.tensor(name).bytes()).toEqual(bytes(2));
    }
    expect(codes(model)).toEqual(["format/apr.empty-name"]);
  });

  it("accepts an empty tensor after the end of the data", async () => {
    const model = await open({
      tensors: [
        { name: "a", data: bytes(3) },
        { name: "e", dims: [0], offset: 64 },
      ],
    });
    expect(await model.tensor("e").bytes()).toHaveLength(0);
  });

  it("finds tensors by name in an unsorted index", async () => {
    const model = await open({
      tensors: [
        { name: "b", data: bytes(1) },
        { name: "a", data: bytes(2) },
      ],
    });
    expect(await model.tensor("a").bytes()).toEqual(bytes(2));
    expect(await model.tensor("b").bytes()).toEqual(bytes(1));
  });

  it("warns of tensors that share bytes", async () => {
    const model = await open({
      tensors: [
        { name: "a", data: bytes(64) },
        { name: "b", data: bytes(8), offset: 60 },
      ],
    });
    expect(codes(model)).toEqual(["format/apr.overlap"]);
  });

  it("takes equal sizes without a flag for raw bytes", async () => {
    const model = await open({ tensors: [{ name: "a", data: bytes(5), rawSize: 5 }] });
    expect(await model.tensor("a").bytes()).toEqual(bytes(5));
    expect(codes(model)).toEqual(["format/apr.tensor-flags"]);
  });
});

describe("large files", () => {
  it("opens in one read and finds a tensor beyond 4 GiB without reading the rest", async () => {
    const front = buildApr({ tensors: [{ name: "far", dims: [4], size: 4, offset: 5 * 2 ** 30 }] });
    const dataOffset = new DataView(front.buffer).getUint32(28, true);
    const source = countingSource(sparseSource(front.slice(0, dataOffset), dataOffset + 5 * 2 ** 30 + 4 + 16));
    const model = await openApr(source, { engine, limits: {} });
    expect(source.calls).toHaveLength(1);
    expect(await model.tensor("far").bytes()).toEqual(Uint8Array.of(7, 7, 7, 7));
    expect(source.calls).toHaveLength(2);
  });

  it("reads metadata and index that exceed the first read with one more", async () => {
    const text = `${APR_METADATA.slice(0, -1)},"text":"${"x".repeat(200_000)}"}`;
    const source = countingSource(memorySource(buildApr({ metadata: text, tensors: [{ name: "a", data: bytes(3) }] })));
    const model = await openApr(source, { engine, limits: {} });
    expect(model.metadata.text("text")).toHaveLength(200_000);
    expect(source.calls).toHaveLength(2);
  });
});

/** The front, then sevens up to `byteLength`. */
function sparseSource(front: Bytes, byteLength: number): Source {
  return {
    label: "sparse",
    byteLength,
    read: async (offset, length, { into = new Uint8Array(length) } = {}) => {
      into.fill(7);
      into.set(front.subarray(offset, offset + length));
      return into;
    },
    stream: async function* (offset) {
      yield front.subarray(offset);
    },
    close: () => Promise.resolve(),
  };
}

it("marks an encrypted tensor, and says why it cannot be read", async () => {
  const file = buildApr({
    flags: 0x12,
    tensors: [
      { name: "open", data: bytes(3) },
      { name: "shut", dims: [4], data: bytes(40), rawSize: 4, flags: 0x10 },
    ],
  });
  const context = { engine, limits: {} };
  const model = await openSpec(memorySource(file), file, context);
  expect(await model.tensor("open").bytes()).toEqual(bytes(3));
  expect(model.tensor("shut").byteLength).toBe(4);
  expect(await codeOf(model.tensor("shut").bytes())).toBe("unsupported/apr.encrypted");
  const unseal = (): never => {
    throw new FormatError("format/apr.block", "broken", { source: "m.apr" });
  };
  const broken = await openSpec(memorySource(file), file, context, { loadUnseal: async () => unseal });
  expect(await codeOf(broken.tensor("shut").bytes())).toBe("format/apr.block");
});
