import { describe, expect, test } from "vitest";
import { buildAero, phsh, tidx, wtsh } from "../../../test/builders/aero.ts";
import { buildSet, countedFolder, SET_NAME, setTensorBytes } from "../../../test/builders/aeroset.ts";
import { adjacentTensors, float32Tensor, memoryModel } from "../../../test/builders/tensors.ts";
import { expectBytes, patternBytes } from "../../../test/contracts/source-contract.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import { openAero } from "../../formats/aero/read.ts";
import { openAeroset } from "../../formats/aeroset/read.ts";
import type { Model } from "../../model/model.ts";
import { Tensor } from "../../model/tensor.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { interleave, type StreamTensorsOptions, streamTensors } from "./stream-tensors.ts";

const bytes = patternBytes(3_000_000);

async function collect(model: Model, options?: StreamTensorsOptions): Promise<Map<string, Bytes>> {
  const pieces = new Map<string, Bytes[]>();
  for await (const { tensor, offset, bytes: piece } of streamTensors(model, options)) {
    const held = pieces.get(tensor.name) ?? [];
    expect(offset).toBe(held.reduce((sum, { byteLength }) => sum + byteLength, 0));
    pieces.set(tensor.name, [...held, piece.slice()]);
  }
  return new Map([...pieces].map(([name, held]) => [name, concatBytes(held)]));
}

test("streamTensors() gives every byte of every tensor from one stream", async () => {
  const source = countingSource(memorySource(bytes));
  const tensors = adjacentTensors(source, [0, 10, 1_500_000, 0, 1, 900_000, 0], 100);
  const found = await collect(memoryModel([...tensors].reverse()));
  expect([...found.keys()]).toEqual(["t0", "t1", "t2", "t3", "t4", "t5", "t6"]);
  for (const { name, offset, byteLength } of tensors) {
    expectBytes(found.get(name) ?? new Uint8Array(1), bytes.subarray(offset, offset + byteLength));
  }
  expect(source.calls).toHaveLength(1);
});

test("streamTensors() starts another stream after a long gap, for tied tensors and for another source", async () => {
  const source = countingSource(memorySource(bytes));
  const [a, b] = adjacentTensors(source, [100, 100], 1_200_000) as [Tensor, Tensor];
  const tied = new Tensor({ ...a, name: "tied" }, { source: () => a.source() });
  const found = await collect(memoryModel([a, b, tied, float32Tensor("other", [1])]));
  expectBytes(found.get("tied") ?? new Uint8Array(0), bytes.subarray(0, 100));
  expect([...(found.get("other") ?? [])]).toEqual([0, 0, 128, 63]);
  expect(source.calls.map(({ offset, byteLength }) => [offset, byteLength])).toEqual([
    [0, 100],
    [0, 100],
    [1_200_100, 100],
  ]);
});

test("streamTensors() in any order reads several files at a time, each tensor in its own order", async () => {
  const sources = [0, 1, 2, 3].map((i) => countingSource(memorySource(bytes.subarray(i * 1000, (i + 1) * 1000))));
  const tensors = sources.map((source, i) => {
    const [tensor] = adjacentTensors(source, [1000]) as [Tensor];
    return tensor.with({ name: `t${i}` });
  });
  const found = await collect(memoryModel(tensors), { order: "any" });
  for (const [i, { name }] of tensors.entries()) {
    expectBytes(found.get(name) ?? new Uint8Array(0), bytes.subarray(i * 1000, (i + 1) * 1000));
  }
  expect([...found.keys()]).toHaveLength(4);
});

test("streamTensors() reads only the requested tensors", async () => {
  const tensors = adjacentTensors(memorySource(bytes), [10, 20, 30]);
  const found = await collect(memoryModel(tensors), { tensors: tensors.slice(1, 2) });
  expect([...found.keys()]).toEqual(["t1"]);
  expect(found.get("t1")).toHaveLength(20);
});

test.each(["files", "any"] as const)(
  "streamTensors() opens only the needed parts, each a little before its turn: %s",
  async (order) => {
    const files = buildSet({ pages: "pages" });
    const folder = countedFolder(files);
    const json = memorySource(files.get(SET_NAME) ?? new Uint8Array(0), SET_NAME);
    const model = await openAeroset(json, { engine: portableEngine(), limits: {}, resolver: folder });
    const opened = (): string[] => folder.opened.map(({ name }) => name).filter((name) => name.startsWith("part"));
    const some = await collect(model, { order, tensors: [model.tensor("t3"), model.tensor("t2")] });
    expect(opened()).toEqual(["part-001.aero"]);
    expect([...some.keys()].sort()).toEqual(["t2", "t3"]);
    const all = await collect(model, { order });
    expect(opened().sort()).toEqual(["part-000.aero", "part-001.aero", "part-002.aero"]);
    for (const [i, { name }] of model.tensors.entries()) expect(all.get(name)).toEqual(setTensorBytes(i));
  },
);

test.each([
  ["files", ["a", "b"]],
  ["any", ["a", "b", "c", "d"]],
] as const)(
  "streamTensors() has opened no more parts than needed when the first piece comes: %s",
  async (order, some) => {
    const tensors = ["a", "b", "c", "d", "e", "f"].map((name) => {
      const [tensor] = adjacentTensors(memorySource(bytes), [1000]) as [Tensor];
      return new Tensor({ ...tensor, name, file: name }, { source: () => tensor.source() });
    });
    const opened: string[] = [];
    const openPart = async (label: string): Promise<void> => void opened.push(label);
    for await (const _ of streamTensors({ ...memoryModel(tensors), openPart }, { order })) break;
    expect([...new Set(opened)]).toEqual(some);
  },
);

test("streamTensors() reports a broken part when its turn comes", async () => {
  const files = new Map(buildSet({ pages: "pages" }));
  files.delete("part-001.aero");
  const json = memorySource(files.get(SET_NAME) ?? new Uint8Array(0), SET_NAME);
  const context = { engine: portableEngine(), limits: {}, resolver: countedFolder(files) };
  const model = await openAeroset(json, context);
  const names: string[] = [];
  const walk = async (): Promise<void> => {
    for await (const { tensor } of streamTensors(model)) names.push(tensor.name);
  };
  await expect(walk()).rejects.toMatchObject({ code: "source/not-found" });
  expect(new Set(names)).toEqual(new Set(["t0", "t1"]));
});

test("streamTensors() reads and checks each page once even if tensors begin inside pages", async () => {
  const shard = wtsh(bytes.slice(0, 10_000));
  const entry = (i: number) => ({ name: `t${i}`, dtype: 5, shape: [990], off: i * 1000, len: 990 });
  const file = buildAero({ chunks: [tidx(Array.from({ length: 10 }, (_, i) => entry(i))), phsh(shard, 700), shard] });
  const source = countingSource(memorySource(file));
  const model = await openAero(source, { engine: portableEngine(), limits: {} });
  const before = source.byteCount;
  const found = await collect(model);
  expectBytes(found.get("t7") ?? new Uint8Array(0), bytes.subarray(7000, 7990));
  expect(source.byteCount - before).toBeLessThanOrEqual(10_000 + 700);
  const damaged = file.slice();
  const start = file.byteLength - 10_000;
  damaged[start + 9900] = (damaged[start + 9900] as number) ^ 1;
  const bad = await openAero(memorySource(damaged), { engine: portableEngine(), limits: {} });
  await expect(collect(bad)).rejects.toMatchObject({ code: "integrity/aero.page-hash" });
});

describe("interleave()", () => {
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  /** Counts up to `count` at its own pace, and logs when it is left. */
  function counting(name: string, count: number, log: string[], turns = 0): () => AsyncIterable<string> {
    return async function* () {
      log.push(`${name} begins`);
      try {
        for (let i = 0; i < count; i++) {
          for (let t = 0; t < turns; t++) await turn();
          yield `${name}${i}`;
        }
      } finally {
        log.push(`${name} ends`);
      }
    };
  }

  async function collect(items: AsyncIterable<string>): Promise<string[]> {
    const all: string[] = [];
    for await (const item of items) all.push(item);
    return all;
  }

  test("one at a time runs streams one after the other", async () => {
    const log: string[] = [];
    expect(await collect(interleave([counting("a", 2, log), counting("b", 1, log)], 1))).toEqual(["a0", "a1", "b0"]);
    expect(log).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  });

  test("several alternate, each in its own order, and no more than requested are open", async () => {
    const log: string[] = [];
    const streams = ["a", "b", "c"].map((name) => counting(name, 3, log, 1));
    const all = await collect(interleave(streams, 2));
    expect(all.slice(0, 4).sort()).toEqual(["a0", "a1", "b0", "b1"]);
    for (const name of ["a", "b", "c"]) {
      expect(all.filter((item) => item.startsWith(name))).toEqual([`${name}0`, `${name}1`, `${name}2`]);
    }
    expect(log.indexOf("c begins")).toBeGreaterThan(Math.min(log.indexOf("a ends"), log.indexOf("b ends")));
  });

  test("a stream that is always ready does not starve the others", async () => {
    const log: string[] = [];
    const all = await collect(interleave([counting("a", 4, log), counting("b", 4, log)], 2));
    expect(all.slice(0, 4).filter((item) => item.startsWith("b")).length).toBeGreaterThan(0);
  });

  test("the next item is requested only after the last one was consumed", async () => {
    let held = 0;
    const stream = async function* (): AsyncGenerator<number> {
      for (let i = 0; i < 3; i++) {
        held++;
        yield i;
        held--;
      }
    };
    for await (const _ of interleave([stream], 2)) {
      expect(held).toBe(1);
      await turn();
      expect(held).toBe(1);
    }
  });

  test("leaving early, or a failure, ends all streams", async () => {
    const log: string[] = [];
    for await (const _ of interleave([counting("a", 9, log), counting("b", 9, log)], 2)) break;
    expect(log).toContain("a ends");
    expect(log).toContain("b ends");
    const failing = async function* (): AsyncGenerator<string> {
      yield "x";
      throw new Error("broken");
    };
    const other: string[] = [];
    await expect(collect(interleave([failing, counting("c", 1e6, other, 1)], 2))).rejects.toThrow("broken");
    expect(other).toEqual(["c begins", "c ends"]);
  });
});
