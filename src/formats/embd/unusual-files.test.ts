import { describe, expect, test } from "vitest";
import {
  buildEmbd,
  buildStream,
  type EmbdFile,
  f32,
  fnv1a,
  SPECIAL_TOKENS,
  sealEmbd,
  setU32,
  u32,
} from "../../../test/builders/embd.ts";
import { convertBytes } from "../../../test/contracts/format-contract.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { loadFixture } from "../../../test/support/fixtures.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { TareError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { ReadOptions, Source } from "../../bytes/source.ts";
import { stringsOf } from "../../model/bert/vocabulary.ts";
import type { Finding } from "../../model/finding.ts";
import { openSource } from "../../open.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { embd } from "./index.ts";
import { openEmbd } from "./read.ts";

/** Unusual and damaged files of the layouts in docs/formats/embd.md. Goldens and conversions have their own tests. */

const engine = portableEngine();
const context = { engine, limits: {} };
const open = (bytes: Bytes, options = {}) => openEmbd(memorySource(bytes, "x.weights"), context, options);
const fixture = (name: string): Bytes => loadFixture("embd", name);
const codes = (findings: readonly Finding[]): string[] => findings.map(({ code }) => code);
const TENSOR = { name: "w", dtype: 0, shape: [2], bytes: f32(1, 2) };

async function refusal(bytes: Bytes, options = {}): Promise<TareError> {
  const outcome: unknown = await open(bytes, options).catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(Error);
  return outcome as TareError;
}

async function findingsOf(bytes: Bytes): Promise<readonly Finding[]> {
  return (await verify(await openSource(memorySource(bytes, "x.weights")), { level: "full", engine })).findings;
}

const errorsOf = async (bytes: Bytes): Promise<string[]> =>
  codes((await findingsOf(bytes)).filter(({ severity }) => severity === "error"));

function flipped(bytes: Bytes, offset: number): Bytes {
  const damaged = bytes.slice();
  damaged[offset] = (damaged[offset] ?? 0) ^ 0x10;
  return damaged;
}

describe("legal files that need care", () => {
  test("a file without a vocabulary has none, and adding one sets the flag", async () => {
    const opened = await openSource(memorySource(fixture("no-vocabulary"), "x.weights"));
    if (opened.container.kind !== "model") throw new Error("not a model");
    expect(opened.container.metadata.get("vocabulary.tokens")).toBeUndefined();
    const written = await convertBytes(await openSource(memorySource(fixture("tiny"), "x.weights")), embd);
    expect([written[8], fixture("no-vocabulary")[8]]).toEqual([7, 6]);
  });
  test("unaligned values are right, and nothing has a checksum", async () => {
    const model = await open(fixture("unaligned"));
    expect(model.warnings).toEqual([]);
    expect(model.tensor("é.bias").offset % 2).toBe(1);
    expect(await model.tensor("w").toFloat32()).toEqual(Float32Array.of(0, 1, 2, 3, 4, 5));
    expect(await model.tensor("é.bias").toFloat32()).toEqual(Float32Array.of(1.5, -2, 65504, 2 ** -24));
    expect(await model.tensor("q").toFloat32()).toEqual(Float32Array.of(-128, 127, 0));
    expect(await errorsOf(fixture("unaligned"))).toEqual([]);
  });
  test("aligned offsets on an unaligned base give one warning and the right values", async () => {
    const model = await open(fixture("base-not-64"));
    expect(codes(model.warnings)).toEqual(["format/embd.data-alignment"]);
    expect(await model.tensor("w").toFloat32()).toEqual(Float32Array.of(0, 1, 2, 3, 4, 5));
    expect(await errorsOf(fixture("base-not-64"))).toEqual([]);
  });
  test("bytes after the footer are a warning for a reader and an error for verify", async () => {
    const model = await open(fixture("trailing"));
    expect(model.warnings).toMatchObject([
      {
        code: "format/embd.trailing-bytes",
        at: { offset: 467 },
        message: expect.stringContaining("3 bytes after footer"),
      },
    ]);
    expect(await errorsOf(fixture("trailing"))).toEqual(["format/embd.trailing-bytes"]);
  });
});

describe("the checksums tell where the damage is", () => {
  const tiny = fixture("tiny");
  test.each([
    ["a padding byte of the data", 0x160, ["integrity/embd.data-checksum", "integrity/embd.file-checksum"]],
    ["a tensor", 0x141, ["integrity/embd.data-checksum", "integrity/embd.file-checksum"]],
    ["the metadata", 0x57, ["integrity/embd.file-checksum"]],
    ["data_checksum", 451, ["integrity/embd.footer"]],
    ["file_checksum", 455, ["integrity/embd.file-checksum"]],
    ["reserved of the header", 60, ["integrity/embd.file-checksum"]],
    ["magic_end", 459, ["format/embd.footer"]],
    ["reserved of the footer", 463, []],
  ])("a flipped bit in %s", async (_, offset, expected) => {
    expect((await errorsOf(flipped(tiny, offset))).sort()).toEqual([...expected].sort());
  });
  test("a non-zero reserved word and non-zero padding are reported", async () => {
    expect(codes(await findingsOf(flipped(tiny, 463)))).toContain("format/embd.reserved");
    expect(codes(await findingsOf(flipped(tiny, 0x160)))).toContain("format/embd.padding");
  });
  test("a flipped bit in the header is refused on opening", async () => {
    for (const offset of [9, 17, 40, 45, 55]) {
      expect(await refusal(flipped(tiny, offset))).toMatchObject({ code: "integrity/embd.header-checksum" });
    }
  });
  test("checksums without the flag are checked if present, and give warnings", async () => {
    const bytes = buildEmbd({ tensors: [TENSOR], flags: 2 });
    setU32(bytes, bytes.byteLength - 16, 0xdeadbeef);
    setU32(bytes, 56, 0x12345678);
    const findings = await findingsOf(bytes);
    expect(findings.filter(({ severity }) => severity === "error").map(({ code }) => code)).toEqual([
      "integrity/embd.header-checksum",
    ]);
    expect(codes(findings)).toContain("integrity/embd.data-checksum");
  });
  test("one pass over a file that is longer than any piece", async () => {
    const bytes = buildEmbd({
      tensors: [{ name: "w", dtype: 8, shape: [3 << 20], bytes: new Uint8Array(3 << 20).fill(7) }],
    });
    expect(await errorsOf(bytes)).toEqual([]);
    expect(await errorsOf(flipped(bytes, bytes.byteLength - 100))).toHaveLength(2);
    const source = countingSource(memorySource(bytes, "x.weights"));
    await verify(await openSource(source), { level: "full", engine });
    expect(source.byteCount).toBeLessThan(bytes.byteLength + (600 << 10));
  });
});

describe("cut and crafted files", () => {
  test("one byte, the footer, the header, everything cut off are four refusals", async () => {
    const tiny = fixture("tiny");
    const cut = (length: number) => openSource(memorySource(tiny.slice(0, length), "x.weights"));
    await expect(cut(466)).rejects.toMatchObject({ code: "format/embd.truncated", at: { offset: 466 } });
    await expect(cut(451)).rejects.toMatchObject({ code: "format/embd.no-footer", at: { offset: 451 } });
    await expect(cut(63)).rejects.toMatchObject({ code: "format/embd.too-short", at: { offset: 63 } });
    await expect(cut(0)).rejects.toMatchObject({ code: "format/empty" });
  });
  test("a file that states that it ends with its data is read, with a warning", async () => {
    const whole = buildEmbd({ tensors: [TENSOR], flags: 2 });
    const bytes = whole.slice(0, -16);
    setU32(bytes, 48, bytes.byteLength);
    expect(codes((await open(bytes, { layout: "spec" })).warnings)).toEqual(["format/embd.no-footer"]);
  });
  test("a wrong name hash is reported with both hashes", async () => {
    const bytes = buildEmbd({ tensors: [{ ...TENSOR, hash: 0x01020304 }] });
    const model = await open(bytes);
    expect(model.tensor("w").byteLength).toBe(8);
    expect(model.warnings[0]).toMatchObject({ code: "format/embd.name-hash", name: "w" });
    expect(model.warnings[0]?.message).toBe(`Tensor "w" must have the name_hash f20c3f36, found 01020304`);
    expect(await errorsOf(bytes)).toEqual(["format/embd.name-hash"]);
  });
  test.each<[string, EmbdFile, RegExp]>([
    ["tensor_index_count", { tensors: [TENSOR], fields: { 32: 0xffff_ffff } }, /^format\/embd\.section$/],
    ["entry_count", { counts: { entries: 0xffff_ffff } }, /^format\/embd\.metadata$/],
    ["token_count", { tokens: ["a"], counts: { tokens: 0xffff_ffff } }, /^format\/embd\.vocabulary$/],
    ["name_length", { tensors: [{ ...TENSOR, nameLength: 65535 }] }, /^format\/embd\.(index|section)$/],
    ["metadata_size", { fields: { 16: 0xffff_ffff } }, /^format\/embd\.section$/],
    ["vocab_size", { tokens: ["a"], fields: { 24: 0xffff_ffff } }, /^format\/embd\.section$/],
    ["tensor_data_offset", { tensors: [TENSOR], fields: { 36: 0xffff_ffff } }, /^format\/embd\.section$/],
  ])("a huge %s is refused without being read", async (_, file, code) => {
    const bytes = buildEmbd(file);
    const source = countingSource(memorySource(bytes, "x.weights"));
    await expect(openEmbd(source, context)).rejects.toMatchObject({ code: expect.stringMatching(code) });
    expect(source.byteCount).toBeLessThanOrEqual(2 * bytes.byteLength);
  });
  test("64-bit sizes beyond 2^53 are refused", async () => {
    for (const fields of [{ 44: 0xffff_ffff }, { 52: 0xffff_ffff }]) {
      expect(await refusal(buildEmbd({ tensors: [TENSOR], fields }), { layout: "spec" })).toMatchObject({
        code: "limit/integer",
      });
    }
    const bytes = buildEmbd({ tensors: [{ ...TENSOR, dataOffset: 2n ** 64n - 64n }] });
    expect(await refusal(bytes)).toMatchObject({ code: "limit/integer", at: { path: "tensor_index[0].data_offset" } });
  });
  test("a product of dimensions never wraps", async () => {
    const shape = [65536, 65536, 65536, 65536];
    const error = await refusal(buildEmbd({ tensors: [{ ...TENSOR, shape }] }));
    expect(error).toMatchObject({ code: "format/overflow", at: { path: "tensor_index[0].shape" } });
    const large = await refusal(buildEmbd({ tensors: [{ ...TENSOR, shape: [65536, 65536] }] }));
    expect(large.code).toBe("format/embd.data-range");
  });
});

describe("the stream layout", () => {
  const tensors = [{ name: "w", shape: [2, 3], values: [0, 1, 2, 3, 4, 5] }];
  test("an empty vocabulary is accepted, a truncated one is not", async () => {
    const model = await open(buildStream(tensors, []));
    expect(stringsOf(model.metadata.get("vocabulary.tokens"))).toEqual([]);
    expect(model.metadata.get("vocabulary.special")).toBeUndefined();
    const whole = buildStream(tensors, [...SPECIAL_TOKENS]);
    for (let length = whole.byteLength - 49; length < whole.byteLength; length++) {
      expect(await refusal(whole.slice(0, length))).toMatchObject({ code: "format/embd.truncated" });
    }
  });
  test("more tokens than the original takes are read, with a note", async () => {
    const model = await open(
      buildStream(
        tensors,
        Array.from({ length: 100_001 }, () => ""),
      ),
    );
    expect(model.warnings).toMatchObject([{ severity: "note", code: "format/embd.vocabulary-size" }]);
  });
  test("special ids come from the tokens; the last of equal ones counts", async () => {
    const model = await open(buildStream(tensors, ["[CLS]", "x", "[UNK]", "[SEP]", "[CLS]"]));
    const special = model.metadata.get("vocabulary.special");
    // [PAD] and [MASK] are missing, so they get the id of unknown words.
    expect(special?.type === "array" && special.slice().map((id) => "value" in id && id.value)).toEqual([
      2, 2, 4, 3, 2,
    ]);
  });
  test("counts, names, dimensions and values must fit", async () => {
    const bytes = buildStream(tensors, []);
    const broken = (offset: number, value: number): Bytes => {
      const copy = bytes.slice();
      setU32(copy, offset, value);
      return copy;
    };
    const as = { layout: "stream" };
    expect((await refusal(broken(8, 0xffff_ffff), as)).code).toBe("format/embd.stream");
    expect((await refusal(broken(8, 2), as)).code).toMatch(/^format\/embd\.(truncated|dimensions)$/);
    expect((await refusal(broken(12, 0xffff_ffff), as)).code).toBe("limit/embd.text-bytes");
    expect((await refusal(broken(12, 1000), as)).code).toBe("format/embd.truncated");
    expect((await refusal(broken(17, 5), as)).code).toBe("format/embd.dimensions");
    expect((await refusal(broken(17, 0), as)).code).toBe("format/embd.dimensions");
    expect((await refusal(broken(21, 0xffff_ffff), as)).code).toBe("format/embd.truncated");
    expect((await refusal(broken(53, 0xffff_ffff), as)).code).toBe("format/embd.truncated");
  });
  test("bytes after the vocabulary are reported", async () => {
    const bytes = concatBytes([buildStream(tensors, []), u32(7)]);
    expect(codes((await open(bytes)).warnings)).toEqual(["format/embd.trailing-bytes"]);
    expect(await errorsOf(bytes)).toEqual(["format/embd.trailing-bytes"]);
  });
});

describe("versions, flags, duplicates, collisions, long texts", () => {
  test("minor versions and unknown flags give warnings, other versions and flags are refused", async () => {
    expect(codes((await open(buildEmbd({ version: [1, 7] }))).warnings)).toEqual(["format/embd.minor-version"]);
    expect(codes((await open(buildEmbd({ flags: 6 | 512 }))).warnings)).toEqual(["format/embd.unknown-flags"]);
    expect((await refusal(buildEmbd({ version: [2, 0] }))).code).toBe("unsupported/embd.version");
    expect((await refusal(buildEmbd({ version: [0, 1] }))).code).toBe("unsupported/embd.version");
    expect((await refusal(buildEmbd({ flags: 6 | 8 }))).code).toBe("unsupported/embd.compressed");
  });
  test("duplicate names and keys are refused; a lenient reader takes the last tensor and the first entry", async () => {
    const names = buildEmbd({ tensors: [TENSOR, { ...TENSOR, bytes: f32(3, 4) }] });
    expect((await refusal(names)).code).toBe("format/embd.duplicate-name");
    const last = await open(names, { leniency: "lenient" });
    expect(last.tensors).toHaveLength(1);
    expect(await last.tensor("w").toFloat32()).toEqual(Float32Array.of(3, 4));
    const keys = buildEmbd({
      metadata: [
        ["k", "1"],
        ["k", "2"],
      ],
    });
    expect((await refusal(keys)).code).toBe("format/embd.duplicate-key");
    expect((await open(keys, { leniency: "lenient" })).metadata.text("k")).toBe("1");
  });
  test("duplicate tokens are accepted, and verify reports them", async () => {
    const bytes = buildEmbd({ tokens: [...SPECIAL_TOKENS, "a", "a", "", ""] });
    expect((await open(bytes)).warnings).toEqual([]);
    const findings = await findingsOf(bytes);
    expect(findings.find(({ code }) => code === "format/embd.duplicate-token")?.message).toMatch(
      /Tokens 5 and 6 are both "a"/,
    );
    expect(await errorsOf(bytes)).toEqual([]);
  });
  test("names with the same hash are two tensors", async () => {
    expect(fnv1a("costarring")).toBe(0x5e4daa9d);
    expect(fnv1a("liquid")).toBe(0x5e4daa9d);
    const pair = ["costarring", "liquid"].map((name, i) => ({ ...TENSOR, name, bytes: f32(i, i) }));
    const model = await open(buildEmbd({ tensors: pair }));
    expect(model.warnings).toEqual([]);
    expect(await model.tensor("liquid").toFloat32()).toEqual(Float32Array.of(1, 1));
    expect(await model.tensor("costarring").toFloat32()).toEqual(Float32Array.of(0, 0));
  });
  test("a value has up to 65535 bytes, counted as bytes", async () => {
    const longest = `${"é".repeat(32767)}x`;
    const bytes = buildEmbd({ metadata: [["naïve", longest]] });
    const opened = await openSource(memorySource(bytes, "x.weights"));
    expect(opened.container.kind === "model" && opened.container.metadata.text("naïve")).toBe(longest);
    expect(await convertBytes(opened, embd)).toEqual(bytes);
  });
});

/** A file of which only front and tail exist; the rest reads as zeros. */
function sparseSource(front: Bytes, tail: Bytes, byteLength: number): Source {
  const read = async (offset: number, length: number, options: ReadOptions = {}): Promise<Bytes> => {
    const bytes = options.into ?? new Uint8Array(length);
    bytes.fill(0);
    if (offset < front.byteLength) bytes.set(front.subarray(offset, Math.min(front.byteLength, offset + length)));
    const tailAt = byteLength - tail.byteLength;
    if (offset + length > tailAt && offset >= tailAt)
      bytes.set(tail.subarray(offset - tailAt, offset - tailAt + length));
    return bytes;
  };
  return {
    label: "sparse.weights",
    byteLength,
    read,
    async *stream() {
      yield await read(0, 0);
    },
    close: () => Promise.resolve(),
  };
}

describe("data beyond 4 GiB", () => {
  test("sizes and offsets above 2^32 are read exactly", async () => {
    const huge = 5 * 2 ** 30;
    const tensors = [
      { name: "big", dtype: 8, shape: [5, 2 ** 30], bytes: new Uint8Array(0), dataOffset: 0 },
      { name: "far", dtype: 0, shape: [2], bytes: new Uint8Array(0), dataOffset: huge },
    ];
    const small = buildEmbd({ tensors });
    const front = small.slice(0, -16);
    const dataSize = huge + 8;
    const total = front.byteLength + dataSize + 16;
    setU32(front, 40, dataSize % 2 ** 32);
    setU32(front, 44, Math.floor(dataSize / 2 ** 32));
    setU32(front, 48, total % 2 ** 32);
    setU32(front, 52, Math.floor(total / 2 ** 32));
    const sealed = sealEmbd(concatBytes([front, new Uint8Array(16)]), 0, 0).slice(0, -16);
    const tail = concatBytes([f32(1.5, -2), new Uint8Array(8), encodeUtf8("DBME"), u32(0)]);
    const model = await openEmbd(sparseSource(sealed, tail, total), context);
    expect(model.tensor("big")).toMatchObject({ byteLength: huge, offset: front.byteLength });
    expect(model.tensor("far").offset).toBe(front.byteLength + huge);
    expect(await model.tensor("far").toFloat32()).toEqual(Float32Array.of(1.5, -2));
  });
});
