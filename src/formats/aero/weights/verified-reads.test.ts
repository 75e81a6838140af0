import { afterEach, expect, test } from "vitest";
import {
  type BuiltChunk,
  b3,
  buildAero,
  compressed,
  hex,
  mjsn,
  mmsg,
  phsh,
  tidx,
  wtsh,
} from "../../../../test/builders/aero.ts";
import { type CountingSource, countingSource } from "../../../../test/support/counting-source.ts";
import { type RangeServer, startRangeServer } from "../../../../test/support/range-server.ts";
import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import type { LimitOverrides } from "../../../base/limits.ts";
import { openHttp } from "../../../bytes/http/index.ts";
import { withHead } from "../../../bytes/layers/opening-read.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { Source } from "../../../bytes/source.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import type { AeroModel } from "../model.ts";
import { openAero } from "../read.ts";

const engine = portableEngine();

/** Past the opening read of 256 KiB, so that every read of weights is seen. */
const FAR = 300 << 10;
const PAGE = 100;
const ROW = 40;
const weights = Uint8Array.from({ length: 2000 }, (_, i) => Math.imul(i, 0x9e3779b1) >>> 24);
const shard = wtsh(weights);

/** "rows" is the shard without its first 10 bytes, so rows cross page borders. */
const rows = (more = {}) => ({ name: "rows", dtype: 5, shape: [49, ROW], off: 10, len: 49 * ROW, more });

/** The index first, then a gap, the shard, and its page hashes. */
function fileOf(chunks: readonly BuiltChunk[], damageAt?: number): { readonly bytes: Bytes; readonly start: number } {
  const gaps = chunks.map(({ fourcc }) => (fourcc === "WTSH" ? FAR : 0));
  const bytes = buildAero({ chunks, gaps });
  const place = chunks.findIndex(({ fourcc }) => fourcc === "WTSH");
  const start = Number(new DataView(bytes.buffer).getBigUint64(112 + 80 * place + 8, true));
  if (damageAt !== undefined) bytes[start + damageAt] = (bytes[start + damageAt] as number) ^ 1;
  return { bytes, start };
}

interface Watched {
  readonly model: AeroModel;
  readonly source: CountingSource;
  readonly start: number;
  /** Pages of the shard that were read since the last call, `[first, last]` for each read. */
  readonly pagesRead: () => (readonly [number, number])[];
}

async function watch(file: ReturnType<typeof fileOf>, limits: LimitOverrides = {}): Promise<Watched> {
  const source = countingSource(memorySource(file.bytes, "file"));
  const opening = await source.read(0, Math.min(256 << 10, file.bytes.byteLength));
  const model = await openAero(withHead(source, opening), { engine, limits });
  let seen = 0;
  const pagesRead = (): (readonly [number, number])[] => {
    const calls = source.calls.slice(seen).filter(({ offset }) => offset >= file.start);
    seen = source.calls.length;
    return calls
      .filter(({ offset }) => offset < file.start + weights.byteLength)
      .map(
        ({ offset, byteLength }) => [(offset - file.start) / PAGE, (offset - file.start + byteLength) / PAGE] as const,
      );
  };
  return { model, source, start: file.start, pagesRead };
}

const paged = (): ReturnType<typeof fileOf> => fileOf([tidx([rows()]), phsh(shard, PAGE), shard]);

test("opening costs one read if control region and index end within it, else two", async () => {
  const near = await watch(paged());
  expect(near.source.calls).toHaveLength(1);
  expect(near.model.facts).toContainEqual(["verified reads", "yes, by page hashes"]);
  const names = Array.from({ length: 9000 }, (_, i) => ({ name: `tensor.${i}`, dtype: 5, shape: [1], len: 1 }));
  const chunks = [shard, phsh(shard, PAGE), mjsn({}), compressed(tidx(names)), mmsg()];
  const far = await watch(fileOf(chunks));
  expect(far.source.calls).toHaveLength(2);
  expect(far.model.tensors).toHaveLength(9000);
});

test("a read of one row fetches the pages it touches and no others", async () => {
  const { model, pagesRead } = await watch(paged());
  const row = model.tensor("rows").rows(7); // bytes 290 to 330 of the shard
  expect(await row.bytes()).toEqual(weights.subarray(290, 330));
  expect(pagesRead()).toEqual([[2, 4]]);
  const inside = model.tensor("rows").rows(10); // 410 to 450
  expect(await inside.bytes()).toEqual(weights.subarray(410, 450));
  expect(pagesRead()).toEqual([[4, 5]]);
  expect(model.verificationOf(model.tensor("rows"))).toBe("pages");
});

test("pages that were checked are kept for a while", async () => {
  const { model, pagesRead } = await watch(paged());
  for (let i = 0; i < 5; i++) expect(await model.tensor("rows").rows(i).bytes()).toHaveLength(ROW);
  expect(pagesRead()).toEqual([
    [0, 1],
    [1, 2],
    [2, 3],
  ]);
});

test("every read gives what the file holds, whatever its range", async () => {
  const { model } = await watch(paged());
  const source = model.tensor("rows").source();
  const all = weights.subarray(10, 10 + source.byteLength);
  for (const [offset, length] of [
    [0, 0],
    [0, 1],
    [90, 1],
    [89, 2],
    [85, 130],
    [90, 100],
    [0, 1960],
    [95, 1000],
    [1959, 1],
    [1300, 660],
  ] as const) {
    expect(await source.read(offset, length), `${length} at ${offset}`).toEqual(all.subarray(offset, offset + length));
    const into = new Uint8Array(length);
    expect(await source.read(offset, length, { into })).toBe(into);
    expect(into).toEqual(all.subarray(offset, offset + length));
    const pieces: Bytes[] = [];
    for await (const piece of source.stream(offset, { byteLength: length })) pieces.push(piece.slice());
    expect(concatBytes(pieces)).toEqual(all.subarray(offset, offset + length));
  }
});

test("nothing of a damaged page is handed out, other pages are", async () => {
  const file = fileOf([tidx([rows()]), phsh(shard, PAGE), shard], 950);
  const { model, start } = await watch(file);
  const tensor = model.tensor("rows");
  expect(await tensor.rows(0, 22).bytes()).toEqual(weights.subarray(10, 890));
  const failure = { code: "integrity/aero.page-hash", at: { offset: start + 900, path: "weights.shard0.page[9]" } };
  await expect(tensor.rows(23).bytes()).rejects.toMatchObject(failure);
  await expect(tensor.rows(23).bytes()).rejects.toThrow(/^Page 9 .*tensor "rows"/);
  const into = new Uint8Array(tensor.byteLength);
  await expect(tensor.bytes({ into })).rejects.toMatchObject(failure);
  expect(into.every((byte) => byte === 0)).toBe(true);
  let streamed = 0;
  const stream = async (): Promise<void> => {
    for await (const piece of tensor.stream()) streamed += piece.byteLength;
  };
  await expect(stream()).rejects.toMatchObject(failure);
  expect(streamed).toBe(890);
});

test("page hashes that cannot be trusted stop reads instead of being ignored", async () => {
  const bad = { ...phsh(shard, PAGE), hash: new Uint8Array(32) };
  const { model } = await watch(fileOf([tidx([rows()]), bad, shard]));
  await expect(model.tensor("rows").bytes()).rejects.toMatchObject({ code: "integrity/aero.chunk-hash" });
  const wrong = await watch(fileOf([tidx([rows()]), phsh(shard, PAGE, { page_size: 7 }), shard]));
  await expect(wrong.model.tensor("rows").bytes()).rejects.toMatchObject({ code: "format/aero.phsh" });
  const large = await watch(paged(), { aero: { verifyBytes: PAGE - 1 } });
  await expect(large.model.tensor("rows").bytes()).rejects.toMatchObject({ code: "limit/aero.verify-bytes" });
  const exact = await watch(paged(), { aero: { verifyBytes: PAGE } });
  expect(await exact.model.tensor("rows").bytes()).toHaveLength(49 * ROW);
});

test("the limit counts the bytes that a page has, not what page_size says", async () => {
  const limits = { aero: { verifyBytes: shard.content.byteLength } };
  const file = (damageAt?: number): ReturnType<typeof fileOf> =>
    fileOf([tidx([rows()]), phsh(shard, 2 ** 40), shard], damageAt);
  const { model } = await watch(file(), limits);
  const tensor = model.tensor("rows");
  const all = weights.subarray(10, 10 + tensor.byteLength);
  expect(await tensor.bytes()).toEqual(all);
  expect(await tensor.rows(3).bytes()).toEqual(all.subarray(3 * ROW, 4 * ROW));
  const pieces: Bytes[] = [];
  for await (const piece of tensor.stream()) pieces.push(piece);
  expect(concatBytes(pieces)).toEqual(all);
  const damaged = await watch(file(950), limits);
  await expect(damaged.model.tensor("rows").bytes()).rejects.toMatchObject({ code: "integrity/aero.page-hash" });
  const long = await watch(file(), { aero: { verifyBytes: shard.content.byteLength - 1 } });
  await expect(long.model.tensor("rows").bytes()).rejects.toMatchObject({ code: "limit/aero.verify-bytes" });
});

const digest = hex(b3(weights.subarray(10, 10 + 49 * ROW)));
const hashed = (damageAt?: number): ReturnType<typeof fileOf> =>
  fileOf([tidx([rows({ hash_b3: digest })]), shard], damageAt);

test("with only a digest of the tensor the first read checks all of it, later ones go straight", async () => {
  const { model, source, start } = await watch(hashed());
  const tensor = model.tensor("rows");
  expect(model.verificationOf(tensor)).toBe("tensor");
  expect(await tensor.rows(7).bytes()).toEqual(weights.subarray(290, 330));
  expect(source.calls.slice(1)).toEqual([{ kind: "read", offset: start + 10, byteLength: 49 * ROW }]);
  expect(await tensor.rows(8).bytes()).toEqual(weights.subarray(330, 370));
  expect(source.calls.slice(2)).toEqual([{ kind: "read", offset: start + 330, byteLength: ROW }]);
  const pieces: Bytes[] = [];
  for await (const piece of (await watch(hashed())).model.tensor("rows").stream()) pieces.push(piece);
  expect(concatBytes(pieces)).toEqual(weights.subarray(10, 10 + 49 * ROW));
});

test("nothing of a damaged tensor is handed out, wherever the damage is", async () => {
  const { model, start } = await watch(hashed(1900));
  const failure = { code: "integrity/aero.tensor-hash", at: { offset: start + 10, path: "rows" } };
  await expect(model.tensor("rows").rows(0).bytes()).rejects.toMatchObject(failure);
  await expect(model.tensor("rows").bytes()).rejects.toMatchObject(failure);
  await expect(model.tensor("rows").stream()[Symbol.asyncIterator]().next()).rejects.toMatchObject(failure);
});

test("a tensor too long to be held for checking is refused by limit", async () => {
  const length = 49 * ROW;
  const exact = await watch(hashed(), { aero: { verifyBytes: length } });
  expect(await exact.model.tensor("rows").rows(0).bytes()).toHaveLength(ROW);
  const { model } = await watch(hashed(), { aero: { verifyBytes: length - 1 } });
  await expect(model.tensor("rows").rows(0).bytes()).rejects.toMatchObject({ code: "limit/aero.verify-bytes" });
});

test("a long local tensor is hashed in place, once for all readers, and never by more than one of them", async () => {
  const long = new Uint8Array(9 << 20).map((_, i) => i >> 8);
  const hash = hex(b3(long));
  const tensor = { name: "long", dtype: 5, shape: [long.byteLength], len: long.byteLength, more: { hash_b3: hash } };
  const bytes = buildAero({ chunks: [tidx([tensor]), wtsh(long)] });
  const memory = memorySource(bytes, "file");
  const local: Source = {
    label: "file",
    byteLength: memory.byteLength,
    descriptor: { kind: "blob", blob: new Blob([]) }, // only its presence counts here
    read: (offset, byteLength, options) => memory.read(offset, byteLength, options),
    stream: (offset, options) => memory.stream(offset, options),
    close: () => memory.close(),
  };
  let passes = 0;
  const counting = Object.create(engine) as typeof engine;
  counting.digest = (algorithm, data) => engine.digest(algorithm, data);
  counting.zstdDecompress = (data, options) => engine.zstdDecompress(data, options);
  counting.digestRange = (algorithm, range, options) => {
    passes++;
    return engine.digestRange(algorithm, range, options);
  };
  const model = await openAero(local, { engine: counting, limits: { aero: { verifyBytes: 10 } } });
  const source = model.tensor("long").source();
  const read = await Promise.all([source.read(5, 3), source.read(4096, 2)]);
  expect(read).toEqual([long.slice(5, 8), long.slice(4096, 4098)]);
  expect(await source.read(9000, 4)).toEqual(long.slice(9000, 9004));
  expect(passes).toBe(1);
});

let server: RangeServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

test("the first row of a remote file takes at most three requests, checked", async () => {
  const behind = fileOf([tidx([rows()]), shard, { ...phsh(shard, PAGE) }]);
  for (const [file, requests] of [
    [paged(), 2],
    [behind, 3],
    [hashed(), 2],
  ] as const) {
    server = await startRangeServer(file.bytes);
    const source = await openHttp(server.url);
    const model = await openAero(source, { engine, limits: {} });
    expect(await model.tensor("rows").rows(7).bytes()).toEqual(weights.subarray(290, 330));
    expect(server.requests).toHaveLength(requests);
    await model.close();
    await server.close();
  }
});

test("a remote tensor without bytes takes no extra request", async () => {
  const empty = (name: string, more = {}) => ({ name, shape: [0], len: 0, off: 1000, more });
  const index = tidx([empty("plain"), empty("hashed", { hash_b3: hex(b3(new Uint8Array(0))) })]);
  for (const pages of [[], [phsh(shard, PAGE)]]) {
    server = await startRangeServer(buildAero({ chunks: [index, shard, ...pages] }));
    const model = await openAero(await openHttp(server.url), { engine, limits: {} });
    const opening = server.requests.length;
    for (const name of ["plain", "hashed"]) {
      expect(await model.tensor(name).bytes()).toEqual(new Uint8Array(0));
      for await (const piece of model.tensor(name).stream()) expect(piece.byteLength).toBe(0);
    }
    expect(server.requests).toHaveLength(opening);
    await model.close();
    await server.close();
  }
});
