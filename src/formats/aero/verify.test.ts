import { expect, test } from "vitest";
import {
  type BuiltAero,
  type BuiltChunk,
  b3,
  buildAero,
  type ControlHashOptions,
  compressed,
  hex,
  mjsn,
  mmsg,
  ONE_TWO_THREE,
  phsh,
  smallAero,
  tidx,
  withControlHash,
  wtsh,
} from "../../../test/builders/aero.ts";
import type { Bytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { VerifyLevel } from "../../model/format.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { aero } from "./index.ts";
import { openAero, reader } from "./read.ts";

const engine = portableEngine();

/** Many shards here hold bytes that no tensor claims; operations/map.test.ts looks at what is said of those. */
async function report(bytes: Bytes, level: VerifyLevel = "full") {
  const container = await openAero(memorySource(bytes, "file"), { engine, limits: {} });
  const whole = await verify({ container, format: aero, reader, notes: [] }, { level, engine });
  return { ...whole, findings: whole.findings.filter(({ code }) => !/^format\/(unclaimed|padding)$/.test(code)) };
}

/** `severity code` of every finding. */
async function found(file: BuiltAero | Bytes, level: VerifyLevel = "full"): Promise<string[]> {
  const { findings } = await report(file instanceof Uint8Array ? file : buildAero(file), level);
  return findings.map(({ severity, code }) => `${severity} ${code}`);
}

const weights = Uint8Array.from({ length: 1000 }, (_, i) => (i * 7) & 0xff);
const bytesTensor = (name: string, off: number, len: number, more = {}) => ({
  name,
  dtype: 5,
  shape: [len],
  off,
  len,
  more,
});
const hashed = (name: string, off: number, len: number) =>
  bytesTensor(name, off, len, { hash_b3: hex(b3(weights.subarray(off, off + len))) });

/** The chunk with one stored byte changed, and the digest from before the change. */
function damaged(chunk: BuiltChunk, at: number): BuiltChunk {
  const stored = (chunk.stored ?? chunk.content).slice();
  stored[at] = (stored[at] as number) ^ 1;
  return { ...chunk, stored };
}

test("a sound file has no findings at any level, and everything is counted", async () => {
  const shard = wtsh(weights);
  const index = compressed(tidx([hashed("a", 0, 100), hashed("b", 100, 900)]));
  const bytes = withControlHash({ chunks: [mjsn({}), mmsg(), index, shard, phsh(shard, 64)] }, { paddedTo: 256 });
  const full = await report(bytes);
  expect(full.findings).toEqual([]);
  expect(full).toMatchObject({ ok: true, weights: "compared" });
  expect(full.checked).toMatchObject({ tensors: 2, chunks: 6, shards: 1, pages: 16, tensorHashes: 2 });
  expect(await found(bytes, "quick")).toEqual([]);
  expect(await found(bytes, "control")).toEqual([]);
});

test("quick compares metadata chunks only; control says plainly when there is no IHSH", async () => {
  const file = { chunks: [...smallAero().slice(0, 3), damaged(wtsh(ONE_TWO_THREE), 5)] };
  expect(await found(file, "quick")).toEqual([]);
  expect(await found(file, "control")).toEqual(["warning integrity/aero.no-control-hash"]);
  expect(await found(file)).toEqual(["error integrity/aero.chunk-hash"]);
});

test("chunks of unknown types are compared with their digest", async () => {
  const unknown = { fourcc: Uint8Array.of(0xff, 1, 2, 3), name: "x", content: weights };
  expect(await found({ chunks: [unknown, compressed({ ...unknown, name: "y" }), ...smallAero()] })).toEqual([]);
  const bad = { chunks: [damaged(unknown, 3), ...smallAero()] };
  expect(await found(bad)).toEqual(["error integrity/aero.chunk-hash"]);
  expect(await found(bad, "quick")).toEqual([]);
  expect(await found({ chunks: [{ ...unknown, ulen: 3 }] })).toEqual(["error format/aero.chunk-size"]);
});

test("chunks that overlap each other or the tables are reported", async () => {
  const [json, manifest, index, shard] = smallAero() as [BuiltChunk, BuiltChunk, BuiltChunk, BuiltChunk];
  const bytes = buildAero({ chunks: [json, manifest, index, shard] });
  const start = Number(new DataView(bytes.buffer).getBigUint64(112 + 80 * 3 + 8, true));
  const content = bytes.slice(start - 16, start + 4);
  const overlapping = { ...shard, content, offset: start - 16, hash: b3(content) };
  expect(await found({ chunks: [json, manifest, index, overlapping] })).toContain("error format/aero.overlap");
  const onHeader = { fourcc: "XXXX", name: "x", content: bytes.slice(0, 4), offset: 0, stored: new Uint8Array(0) };
  expect(await found({ chunks: [{ ...onHeader, length: 4 }] })).toEqual(["error format/aero.overlap"]);
});

test("a shard that is compressed, or has another ulen", async () => {
  expect(await found({ chunks: [tidx([]), compressed(wtsh(ONE_TWO_THREE))] })).toEqual([
    "error format/aero.compressed",
  ]);
  expect(await found({ chunks: [tidx([]), { ...wtsh(ONE_TWO_THREE), ulen: 11 }] })).toEqual([
    "error format/aero.chunk-size",
  ]);
});

test("a wrong hash_b3 names the tensor and its bytes; upper case is the same digest", async () => {
  const bad = hex(b3(new Uint8Array(1)));
  const chunks = [tidx([hashed("good", 0, 10), bytesTensor("bad", 10, 30, { hash_b3: bad })]), wtsh(weights)];
  const { findings } = await report(buildAero({ chunks }));
  expect(findings).toMatchObject([{ severity: "error", code: "integrity/aero.tensor-hash", name: "bad" }]);
  const { message, at } = findings[0] ?? { message: "", at: { offset: 0 } };
  expect(message).toContain(`bytes ${at.offset} to ${(at.offset ?? 0) + 30}`);
  const upper = hex(b3(weights.subarray(0, 10))).toUpperCase();
  expect(await found({ chunks: [tidx([bytesTensor("a", 0, 10, { hash_b3: upper })]), wtsh(weights)] })).toEqual([]);
  expect(await found({ chunks: [tidx([bytesTensor("a", 0, 10, { hash_b3: "" })]), wtsh(weights)] })).toEqual([]);
});

test("a missing shard is an error, unless the file has none at all", async () => {
  const tensors = [{ name: "w" }, { name: "v", shard: 7 }];
  expect(await found({ chunks: [tidx(tensors), wtsh(ONE_TWO_THREE)] })).toEqual([
    "warning format/aero.missing-shard",
    "error format/aero.missing-shard",
  ]);
  expect(await found({ chunks: [tidx(tensors)] })).not.toContain("error format/aero.missing-shard");
});

test("metadata with another digest is an error here, reported once, and a warning on opening", async () => {
  const chunks = [{ ...mjsn({ a: 1 }), hash: new Uint8Array(32) }, ...smallAero().slice(1)];
  expect(await found({ chunks }, "quick")).toEqual(["error integrity/aero.chunk-hash"]);
  const model = await openAero(memorySource(buildAero({ chunks }), "file"), { engine, limits: {} });
  expect(model.warnings).toMatchObject([{ severity: "warning", code: "integrity/aero.chunk-hash" }]);
});

test("damage to any byte of MJSN or MMSG is reported once", async () => {
  for (const [at, chunk] of smallAero().slice(0, 2).entries()) {
    for (let i = 0; i < (chunk.stored ?? chunk.content).byteLength; i++) {
      const chunks = smallAero().map((one, k) => (k === at ? damaged(one, i) : one));
      expect(await found({ chunks }), `chunk ${at}, byte ${i}`).toEqual([expect.stringMatching(/^error /)]);
    }
  }
});

test("a shard with another digest opens and reads, and fails only in verify", async () => {
  const chunks = smallAero().map((chunk) => (chunk.fourcc === "WTSH" ? { ...chunk, hash: new Uint8Array(32) } : chunk));
  const model = await openAero(memorySource(buildAero({ chunks }), "file"), { engine, limits: {} });
  expect([...(await model.tensor("w").toFloat32())]).toEqual([1, 2, 3]);
  expect(await found({ chunks }, "quick")).toEqual([]);
  expect(await found({ chunks })).toEqual(["error integrity/aero.chunk-hash"]);
});

test("tensors that share a part of their bytes are reported, tied ones are not", async () => {
  const tied = [bytesTensor("a", 0, 10), bytesTensor("b", 0, 10), bytesTensor("c", 10, 10)];
  expect(await found({ chunks: [tidx(tied), wtsh(weights)] })).toEqual([]);
  const partly = [...tied, bytesTensor("d", 15, 10)];
  expect(await found({ chunks: [tidx(partly), wtsh(weights)] })).toEqual(["warning format/aero.tensor-overlap"]);
});

test("tensors that would make every byte be hashed many times are refused", async () => {
  const tensors = Array.from({ length: 40 }, (_, i) => hashed(`t${i}`, i, 900));
  const codes = await found({ chunks: [tidx(tensors), wtsh(weights)] });
  expect(codes).toContain("error limit/aero.hash-work");
});

const control = (options: ControlHashOptions = {}): Bytes => withControlHash({ chunks: smallAero() }, options);

test("a control hash is compared padded or not, over one range or several", async () => {
  expect(await found(control())).toEqual([]);
  expect(await found(control({ paddedTo: 256 }))).toEqual([]);
  expect(
    await found(
      control({
        ranges: (end) => [
          [0, 96],
          [96, 200],
          [200, end],
        ],
      }),
    ),
  ).toEqual([]);
});

test("a changed uuid, offset or name fails the control hash, a changed digest only the chunk", async () => {
  const flip = (at: number): Bytes => {
    const bytes = control();
    bytes[at] = (bytes[at] as number) ^ 1;
    return bytes;
  };
  const uuid = flip(52);
  expect(await found(uuid, "control")).toEqual(["error integrity/aero.control-hash"]);
  expect(await found(uuid, "quick")).toEqual([]);
  const digestOfWeights = 112 + 80 * 4 + 48;
  expect(await found(flip(digestOfWeights), "control")).toEqual([]);
  expect(await found(flip(digestOfWeights))).toEqual(["error integrity/aero.chunk-hash"]);
});

test("ranges that leave a table out, run on or back, and other algorithms are refused", async () => {
  const refused = (options: ControlHashOptions): Promise<string[]> => found(control(options), "control");
  const bad = ["error format/aero.ihsh"];
  expect(await refused({ ranges: (end) => [[0, end - 64]] })).toEqual(bad);
  expect(await refused({ ranges: (end) => [[1, end]] })).toEqual(bad);
  expect(
    await refused({
      ranges: (end) => [
        [0, 96],
        [97, end],
      ],
    }),
  ).toEqual(bad);
  expect(await refused({ ranges: () => [[0, 1 << 20]] })).toEqual(bad);
  expect(
    await refused({
      ranges: (end) => [
        [0, end],
        [0, end],
      ],
    }),
  ).toEqual(bad);
  expect(await refused({ ranges: () => [] })).toEqual(bad);
  expect(await refused({ algo: "sha256" })).toEqual(["error unsupported/aero.algo"]);
});

const paged = (pages: (shard: BuiltChunk) => BuiltChunk, content = weights): BuiltAero => {
  const shard = wtsh(content);
  return { chunks: [tidx([]), shard, pages(shard)] };
};

test("a damaged page is named with its number, its bytes and its tensors", async () => {
  const shard = damaged(wtsh(weights), 130);
  const tensors = [bytesTensor("before", 0, 64), bytesTensor("hit", 64, 100), bytesTensor("after", 192, 10)];
  const { findings } = await report(buildAero({ chunks: [tidx(tensors), shard, phsh(shard, 64)] }));
  expect(findings.map(({ code }) => code)).toEqual(["integrity/aero.chunk-hash", "integrity/aero.page-hash"]);
  const page = findings[1];
  expect(page?.message).toMatch(/^Page 2 of "weights.shard0" is damaged .* tensor "hit"/);
  expect(page?.at.offset).toBe((findings[0]?.at.offset ?? 0) + 128);
});

test("any number of pages, an empty shard, and a name that is not the shard's", async () => {
  expect(await found(paged((shard) => phsh(shard, 1)))).toEqual([]);
  expect(await found(paged((shard) => phsh(shard, 64), new Uint8Array(0)))).toEqual([]);
  expect(await found(paged((shard) => phsh(shard, 64, { shard_name: "other" })))).toEqual([
    "warning format/aero.page-shard",
  ]);
});

test("page hashes that do not fit the shard are refused", async () => {
  const bad = ["error format/aero.phsh"];
  expect(await found(paged((shard) => phsh(shard, 64, { page_size: 0 })))).toEqual(bad);
  expect(await found(paged((shard) => phsh(shard, 64, { digests: [] })))).toEqual(bad);
  expect(await found(paged((shard) => phsh(shard, 64, { page_size: 50 })))).toEqual(bad);
  // 1000 bytes are 16 pages of 64, so these are one digest too few and one too many.
  const digests = (count: number) => Array.from({ length: count }, () => new Uint8Array(32));
  for (const count of [15, 17])
    expect(await found(paged((shard) => phsh(shard, 64, { digests: digests(count) })))).toEqual(bad);
  expect(
    await found(paged((shard) => phsh(shard, 999, { digests: [new Uint8Array(32), new Uint8Array(31)] }))),
  ).toEqual(bad);
  expect(await found(paged((shard) => compressed(phsh(shard, 64))))).toContain("error format/aero.compressed");
  expect(await found(paged((shard) => damaged(phsh(shard, 64), 20)))).toContain("error integrity/aero.chunk-hash");
});
