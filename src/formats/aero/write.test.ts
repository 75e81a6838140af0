import { expect, test } from "vitest";
import { adjacentTensors, float32Tensor, memoryTensor } from "../../../test/builders/tensors.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { type Bytes, concatBytes, equalBytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/text.ts";
import { memoryOutput, memorySink, memorySource } from "../../bytes/memory.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import { Metadata } from "../../model/metadata.ts";
import type { Piece } from "../../model/pieces.ts";
import { Tensor } from "../../model/tensor.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { planAero } from "./plan.ts";
import { canHashAside, HashingSink, hashAside, pageExtents, RunDigests } from "./write/shards.ts";
import { writeAero } from "./write.ts";

const engine = portableEngine();
const pattern = (length: number): Bytes => Uint8Array.from({ length }, (_, i) => (i * 131 + (i >> 8)) & 0xff);
const plan = (tensors: readonly Tensor[]) =>
  planAero(
    { metadata: new Metadata(), tensors, chain: [] },
    { name: "m", hashes: { pageBytes: 64, tensors: "tensors" } },
  );
const digest = async (bytes: Bytes): Promise<string> => encodeHex(await engine.digest("blake3", bytes));

function outputOf(sink: Sink): Output {
  return { label: "out", name: "m", create: () => Promise.resolve(sink) };
}

test("HashingSink hashes runs of what passes, however it is cut into appends", async () => {
  const bytes = pattern(900_000);
  const runs = [
    { offset: 0, byteLength: 10 },
    { offset: 10, byteLength: 0 },
    { offset: 64, byteLength: 300_000 },
    { offset: 300_064, byteLength: 599_936 },
    { offset: 900_000, byteLength: 0 },
  ];
  for (const lengths of [[900_000], [1, 70_000, 63, 5, 400_000, 90_000, 65_536], [300_000, 10, 300_000]]) {
    const digests = new RunDigests(engine, runs);
    const pages = new RunDigests(engine, pageExtents(bytes.byteLength, 65_537));
    const sink = memorySink();
    const hashing = new HashingSink(sink, [digests, pages]);
    const appends: Promise<void>[] = [];
    let position = 0;
    for (let i = 0; position < bytes.byteLength; i++) {
      const length = lengths[i % lengths.length] as number;
      appends.push(hashing.append(bytes.subarray(position, position + length)));
      position += length;
    }
    await Promise.all(appends);
    await hashing.settled();
    const wanted = runs.map(({ offset, byteLength }) => digest(bytes.slice(offset, offset + byteLength)));
    expect((await digests.finish()).map(encodeHex)).toEqual(await Promise.all(wanted));
    const found = await pages.finish();
    expect(found).toHaveLength(14);
    expect(encodeHex(found[13] as Bytes)).toBe(await digest(bytes.slice(13 * 65_537)));
    await sink.commit();
    expect(equalBytes(sink.published as Bytes, bytes)).toBe(true);
  }
});

test("RunDigests refuses to end before its runs end", async () => {
  const digests = new RunDigests(engine, [{ offset: 0, byteLength: 5 }]);
  await digests.feed(pattern(4), 0);
  await expect(digests.finish()).rejects.toThrow("no bytes came");
});

test("writeAero() refuses an output that cannot go back, and leaves nothing there", async () => {
  const sink = memorySink();
  const states: string[] = [];
  const forward: Sink = {
    label: "pipe",
    position: 0,
    append: (bytes) => sink.append(bytes),
    commit: () => Promise.reject(new Error("committed")),
    abort: async () => void states.push("aborted"),
  };
  await expect(writeAero(plan([float32Tensor("a", [1])]), outputOf(forward), { engine })).rejects.toMatchObject({
    code: "unsupported/aero.sequential-output",
  });
  expect(states).toEqual(["aborted"]);
});

test("writeAero() writes the file header after everything else", async () => {
  const sink = memorySink();
  const fills: (readonly [number, number])[] = [];
  const fill = (offset: number, bytes: Bytes): Promise<void> => {
    fills.push([offset, bytes.byteLength]);
    return sink.fill(offset, bytes);
  };
  const watched = new Proxy(sink, {
    get: (target, key) => {
      const value: unknown = key === "fill" ? fill : Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  await writeAero(plan([float32Tensor("a", [1])]), outputOf(watched), { engine });
  expect(fills.at(-1)).toEqual([0, 96]);
  expect(fills.slice(0, -1).every(([offset]) => offset >= 96)).toBe(true);
});

test("writeAero() drops everything if a tensor cannot be read or the check refuses", async () => {
  const broken: Source = {
    ...memorySource(new Uint8Array(8)),
    label: "broken",
    byteLength: 8,
    read: () => Promise.reject(new Error("disk")),
    stream: () => memorySource(new Uint8Array(8)).stream(0),
    close: () => Promise.resolve(),
  };
  const tensor = new Tensor({ name: "x", dtype: "U8", shape: [8], byteLength: 8, offset: 0 }, { source: () => broken });
  const output = memoryOutput("m");
  await expect(writeAero(plan([tensor]), output, { engine })).rejects.toThrow("disk");
  const check = (): Promise<void> => Promise.reject(new Error("unsound"));
  await expect(writeAero(plan([float32Tensor("a", [1])]), output, { engine, check })).rejects.toThrow("unsound");
  expect(output.files.size).toBe(0);
});

test("writeAero() shows the unpublished file to the check", async () => {
  const seen: number[] = [];
  const output = memoryOutput("m");
  const planned = plan([float32Tensor("a", [1, 2])]);
  await writeAero(planned, output, {
    engine,
    check: async ({ resolve }) => {
      expect(output.files.size).toBe(0);
      seen.push((await resolve("m")).byteLength);
      await expect(resolve("other")).rejects.toMatchObject({ code: "source/not-found" });
    },
  });
  expect(seen).toEqual([planned.files[0]?.byteLength]);
});

test("writeAero() reads every byte once and never a whole large tensor at a time", async () => {
  const byteLength = (9 << 20) + 133;
  const source = countingSource(memorySource(new Uint8Array(byteLength).fill(7)));
  const tensors = adjacentTensors(source, [5 << 20, 100, 4 << 20, 33]);
  const hashes = { pageBytes: 1 << 20, tensors: "tensors" } as const;
  const planned = planAero({ metadata: new Metadata(), tensors, chain: [] }, { name: "m", hashes });
  await writeAero(planned, memoryOutput("m"), { engine });
  expect(source.byteCount).toBe(byteLength);
  expect(Math.max(...source.calls.map(({ byteLength }) => byteLength))).toBeLessThanOrEqual(4 << 20);
});

test("hashAside() gives the digests of the planned shard, whatever its tensors' sources", async () => {
  const [first, second] = [memorySource(pattern(1000)), memorySource(pattern(500).reverse())];
  const a = adjacentTensors(first, [100, 0, 300], 7);
  const b = adjacentTensors(second, [200, 50]).map((tensor) => tensor.with({ name: `second ${tensor.name}` }));
  const mixed = [b[1], a[2], a[0], b[0], a[1], memoryTensor("c", "U8", [3], pattern(3))] as Tensor[];
  const pieces: Piece[] = mixed.flatMap((tensor) => [
    { kind: "tensor", tensor },
    { kind: "zeros", byteLength: 5 },
  ]);
  const shard = concatBytes(
    await Promise.all(pieces.map((piece) => (piece.kind === "tensor" ? piece.tensor.bytes() : new Uint8Array(5)))),
  );
  const runs = [
    { offset: 0, byteLength: shard.byteLength },
    { offset: 40, byteLength: 300 },
    { offset: 55, byteLength: 300 },
    { offset: 60, byteLength: 0 },
  ];
  const wanted = await Promise.all(
    runs.map(({ offset, byteLength }) => digest(shard.slice(offset, offset + byteLength))),
  );
  expect((await hashAside(pieces, runs, { engine })).map(encodeHex)).toEqual(wanted);
});

test("canHashAside() refuses what a worker cannot open, and what is too small for one", () => {
  const large = (descriptor: Source["descriptor"]): Tensor => {
    const source: Source = {
      ...memorySource(new Uint8Array(0)),
      label: "x",
      byteLength: 2 ** 30,
      descriptor,
    } as Source;
    const facts = { name: "x", dtype: "U8" as const, shape: [2 ** 30], byteLength: 2 ** 30, offset: 0 };
    return new Tensor(facts, { source: () => source });
  };
  const file = large({ kind: "file", path: "x", byteLength: 2 ** 30, identity: "x" });
  const piece = (tensor: Tensor): Piece => ({ kind: "tensor", tensor });
  expect(canHashAside([piece(file), { kind: "zeros", byteLength: 9 }])).toBe(true);
  expect(canHashAside([piece(file), piece(large(undefined))])).toBe(false);
  expect(canHashAside([])).toBe(false);
});
