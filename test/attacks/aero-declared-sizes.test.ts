import { describe, expect, test } from "vitest";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { isTareError } from "../../src/base/errors.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { openAero } from "../../src/formats/aero/read.ts";
import { openSource } from "../../src/open.ts";
import { verify } from "../../src/operations/verify.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import {
  type BuiltAero,
  type BuiltChunk,
  buildAero,
  map,
  mjsn,
  mmsg,
  ONE_TWO_THREE,
  type Packed,
  pack,
  phsh,
  smallAero,
  tensorEntry,
  tidx,
  tidxOf,
  wtsh,
} from "../builders/aero.ts";
import { bounded, vastSource } from "./bounded.ts";
import { openBytes, refusalOf } from "./open-bytes.ts";

const engine = portableEngine();
/** As long as a file can be. */
const VAST = 2 ** 53 - 1;
const BEYOND = [2n ** 53n, 2n ** 63n, 2n ** 64n - 1n];

async function refusedVast(file: BuiltAero): Promise<string> {
  const source = vastSource(buildAero(file), VAST);
  const opening: Promise<unknown> = bounded(() => openSource(source, { engine }));
  return opening.then(
    () => "opened",
    (error: unknown) => (isTareError(error) ? error.code : Promise.reject(error)),
  );
}

describe("sizes that a file of any length could have are judged before anything is read for them", () => {
  test.each([1_000_001, 2 ** 31, 2 ** 32 - 1])("%d entries", async (entryCount) => {
    expect(await refusedVast({ entryCount, tocLength: 2 ** 40 })).toBe("limit/aero.chunks");
  });
  test.each([2 ** 29 + 1, 2 ** 32, 2 ** 50])("a string table of %d bytes", async (namesLength) => {
    expect(await refusedVast({ namesLength })).toBe("limit/aero.string-table-bytes");
  });
  test.each([2 ** 31 + 1, 2 ** 32, 2 ** 50])("an index of %d bytes", async (length) => {
    expect(await refusedVast({ chunks: [{ ...tidx([]), length, ulen: length }] })).toBe("limit/aero.metadata-bytes");
    expect(await refusedVast({ chunks: [{ ...tidx([]), flags: 5, length }] })).toBe("limit/aero.metadata-bytes");
    expect(await refusedVast({ chunks: [{ ...tidx([]), flags: 5, ulen: length }] })).toBe("limit/aero.metadata-bytes");
  });
  test.each([2 ** 31 + 1, 2 ** 50])("other metadata of %d bytes is left out, and an error of verify", async (size) => {
    const big = (chunk: BuiltChunk): BuiltChunk => ({ ...chunk, length: size, ulen: size });
    const ihsh = { fourcc: "IHSH", name: "control.integrity", content: new Uint8Array(1) };
    const shard = wtsh(ONE_TWO_THREE);
    const chunks = [big(mjsn({})), big(mmsg()), big(ihsh), tidx([{ name: "w" }]), shard, big(phsh(shard, 4))];
    const source = vastSource(buildAero({ chunks }), VAST);
    const opened = await bounded(() => openSource(source, { engine }));
    const report = await bounded(() => verify(opened, { level: "control", engine }));
    const codes = report.findings.filter(({ severity }) => severity === "error").map(({ code }) => code);
    expect(new Set(codes)).toEqual(new Set(["limit/aero.metadata-bytes"]));
    if (opened.container.kind !== "model") throw new Error("not a model");
    const reading = opened.container.tensor("w").bytes();
    await expect(reading).rejects.toMatchObject({ code: "limit/aero.metadata-bytes" });
  });
});

test("the limit of chunks holds at its value and refuses one more", async () => {
  const chunk: BuiltChunk = { fourcc: "XXXX", name: "", content: new Uint8Array(0), hash: new Uint8Array(32) };
  const bytes = buildAero({ chunks: new Array<BuiltChunk>(5000).fill(chunk) });
  const open = (chunks: number) => openAero(memorySource(bytes), { engine, limits: { aero: { chunks } } });
  expect((await open(5000)).content.control.toc.chunks).toHaveLength(5000);
  await expect(open(4999)).rejects.toMatchObject({ code: "limit/aero.chunks" });
});

describe.each(BEYOND)("the number %d", (value) => {
  test.each(["tocOffset", "tocLength", "namesOffset", "namesLength"])("as %s is refused", async (field) => {
    expect((await refusalOf(buildAero({ chunks: smallAero(), [field]: value }))).code).toBe("limit/integer");
  });
  test.each(["offset", "length", "ulen"])("as %s of any chunk is refused", async (field) => {
    for (let i = 0; i < 4; i++) {
      const chunks = smallAero().map((chunk, k) => (k === i ? { ...chunk, [field]: value } : chunk));
      expect((await refusalOf(buildAero({ chunks }))).code, `toc[${i}]`).toBe("limit/integer");
    }
  });
  test.each([{ dtype: value }, { shape: [value] }, { shard: value }, { off: value }, { len: value }])(
    "in an entry of the index is refused: %o",
    async (change) => {
      expect((await refusalOf(buildAero({ chunks: smallAero(change) }))).code).toMatch(
        /^(limit\/integer|format\/aero)/,
      );
    },
  );
  test("as page size, or in the ranges of a control hash, is an error of verify and of reads", async () => {
    const shard = wtsh(ONE_TWO_THREE);
    const ranges = map({ algo: "blake3-256", covered_ranges: [[0, value]], digest: new Uint8Array(32) });
    const ihsh = { fourcc: "IHSH", name: "control.integrity", content: pack(ranges) };
    const chunks = [ihsh, tidx([{ name: "w" }]), shard, phsh(shard, 4, { page_size: value })];
    const opened = await openSource(memorySource(buildAero({ chunks }), "x"), { engine });
    const report = await verify(opened, { level: "full", engine });
    const codes = report.findings.map(({ severity, code }) => `${severity} ${code}`);
    expect(codes).toEqual(["error limit/integer", "error limit/integer"]);
    if (opened.container.kind !== "model") throw new Error("not a model");
    await expect(opened.container.tensor("w").bytes()).rejects.toMatchObject({ code: "limit/integer" });
  });
});

/** Heads of MessagePack that announce 2^32 - 1 of something; nothing follows. */
const ENDLESS = {
  array: 0xdd,
  map: 0xdf,
  text: 0xdb,
  binary: 0xc6,
  extension: 0xc9,
} as const;
const endless = (head: number): Packed => ({ raw: Uint8Array.of(head, 0xff, 0xff, 0xff, 0xff) });
/** A million arrays in each other. */
const DEEP: Packed = { raw: concatBytes([new Uint8Array(1_000_000).fill(0x91), Uint8Array.of(0xc0)]) };
const DEEP_MAPS: Packed = {
  raw: Uint8Array.from({ length: 3_000_000 }, (_, i) => [0x81, 0xa1, 0x61][i % 3] as number),
};

const VALUES: readonly (readonly [what: string, value: Packed])[] = [
  ...Object.entries(ENDLESS).map(([what, head]) => [`an endless ${what}`, endless(head)] as const),
  ["a million nested arrays", DEEP],
  ["a million nested maps", DEEP_MAPS],
];

/** The value in every place of an index that is looked at. */
function* indexesWith(value: Packed): Generator<Bytes> {
  yield pack(value);
  yield pack(map({ tensors: value }));
  yield pack(map({ tensors: [value] }));
  for (const key of ["name", "dtype", "shape", "shard_id", "data_off", "data_len", "quant_id", "hash_b3"]) {
    yield pack(map({ tensors: [tensorEntry({ name: "w", more: { [key]: value } })] }));
  }
  yield pack(map({ tensors: [tensorEntry({ name: "w", dtype: 0x8000, more: { quant_params: value } })] }));
  yield pack(map({ tensors: [tensorEntry({ name: "w", dtype: 0x8000, more: { quant_params: map({ a: value }) } })] }));
}

/** The value in places that are passed over: no bit of an entry's flags has a meaning. */
function* indexesBeside(value: Packed): Generator<Bytes> {
  yield pack(map({ unknown: value, tensors: [] }));
  for (const key of ["flags", "x"]) {
    yield pack(map({ tensors: [tensorEntry({ name: "w", more: { [key]: value } })] }));
  }
}

describe.each(VALUES)("MessagePack with %s", (_, value) => {
  test("anywhere in an index is refused", async () => {
    await bounded(async () => {
      for (const content of indexesWith(value)) {
        const chunks = [{ ...tidxOf(null), content }, wtsh(ONE_TWO_THREE)];
        expect((await refusalOf(buildAero({ chunks }))).code).toMatch(/^(format|limit)\/(msgpack|aero)\./);
      }
    });
  });
  test("in what nobody looks at is passed over where it ends, and refused where it does not", async () => {
    await bounded(async () => {
      for (const content of indexesBeside(value)) {
        const bytes = buildAero({ chunks: [{ ...tidxOf(null), content }, wtsh(ONE_TWO_THREE)] });
        if (value === DEEP) expect((await openBytes(bytes)).format.id).toBe("aero");
        else expect((await refusalOf(bytes)).code).toMatch(/^(format|limit)\/msgpack\./);
      }
    });
  });
  test("in a manifest, a control hash or page hashes is an error of verify", async () => {
    const shard = wtsh(ONE_TWO_THREE);
    const manifest = { ...mmsg(), content: pack(map({ model: map({ name: "m", 7: value }), tail: endless(0xdd) })) };
    const ihsh = { fourcc: "IHSH", name: "control.integrity", content: pack(map({ covered_ranges: value })) };
    const pages = phsh(shard, 4, { digests: value });
    const chunks = [manifest, ihsh, tidx([{ name: "w" }]), shard, pages];
    const report = await bounded(async () => {
      const opened = await openSource(memorySource(buildAero({ chunks }), "x"), { engine });
      return verify(opened, { level: "full", engine });
    });
    expect(report.findings).toHaveLength(3);
    for (const { severity, code } of report.findings) {
      expect(`${severity} ${code}`).toMatch(/^error (format|limit)\/(msgpack|aero)\./);
    }
  });
});
