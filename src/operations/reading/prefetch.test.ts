import { expect, test } from "vitest";
import { buildAero, phsh, tidx, wtsh } from "../../../test/builders/aero.ts";
import { adjacentTensors, memoryModel } from "../../../test/builders/tensors.ts";
import { expectBytes, patternBytes } from "../../../test/contracts/source-contract.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { withCoalescing } from "../../bytes/layers/coalesce.ts";
import { memorySource } from "../../bytes/memory.ts";
import { openAero } from "../../formats/aero/read.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { prefetch } from "./prefetch.ts";

const bytes = patternBytes(600_000);

/** 20 tensors of 1000 bytes, `gap` bytes apart. */
function scattered(gap: number) {
  const below = countingSource(memorySource(bytes));
  const tensors = adjacentTensors(withCoalescing(below, { maxGap: 4000 }), Array(20).fill(1000), gap);
  return { below, tensors, model: memoryModel(tensors), names: tensors.map(({ name }) => name) };
}

test("prefetch() fetches neighbours with one request; reading them then takes none", async () => {
  const { below, model, names, tensors } = scattered(3000);
  const loaded = await prefetch(model, [...names].reverse());
  expect(below.calls).toEqual([{ kind: "stream", offset: 0, byteLength: 77_000 }]);
  for (const tensor of tensors) {
    const held = loaded.get(tensor.name);
    expectBytes((await held?.bytes()) ?? new Uint8Array(0), bytes.subarray(tensor.offset, tensor.offset + 1000));
    expectBytes(
      (await held?.rows(10, 20).bytes()) ?? new Uint8Array(0),
      bytes.subarray(tensor.offset + 10, tensor.offset + 20),
    );
  }
  expect(below.calls).toHaveLength(1);
});

test("prefetch() requests distant tensors one by one, and a duplicate name once", async () => {
  const { below, model, names } = scattered(5000);
  await prefetch(model, [...names.slice(0, 3), ...names.slice(0, 3)]);
  expect(below.calls.map(({ offset, byteLength }) => [offset, byteLength])).toEqual([
    [0, 1000],
    [6000, 1000],
    [12_000, 1000],
  ]);
});

test("prefetch() refuses too many bytes and unknown names before it reads", async () => {
  const { below, model, names } = scattered(0);
  await expect(prefetch(model, names, { maxBytes: 19_999 })).rejects.toMatchObject({ code: "limit/prefetch" });
  await expect(prefetch(model, ["t0", "nope"])).rejects.toMatchObject({ code: "usage/tensor-not-found" });
  await expect(prefetch(model, names, { signal: AbortSignal.abort(new Error("no")) })).rejects.toThrow("no");
  expect(below.calls).toEqual([]);
});

test("prefetch() reads a page that several tensors share once, and gives nothing of a damaged one", async () => {
  const shard = wtsh(bytes.slice(0, 40_000));
  const entry = (i: number) => ({ name: `t${i}`, dtype: 5, shape: [100], off: i * 1000, len: 100 });
  const file = buildAero({ chunks: [tidx(Array.from({ length: 40 }, (_, i) => entry(i))), phsh(shard, 4000), shard] });
  const start = file.byteLength - 40_000;
  const open = async (content: typeof file) => {
    const source = countingSource(memorySource(content));
    return { source, model: await openAero(source, { engine: portableEngine(), limits: {} }) };
  };
  const { source, model } = await open(file);
  const before = source.byteCount;
  const loaded = await prefetch(model, ["t0", "t1", "t2", "t3", "t38", "t39"]);
  expectBytes((await loaded.get("t39")?.bytes()) ?? new Uint8Array(0), bytes.subarray(39_000, 39_100));
  expect(source.byteCount - before).toBeLessThanOrEqual(8000 + 1000);
  const damaged = file.slice();
  damaged[start + 38_500] = (damaged[start + 38_500] as number) ^ 1;
  const other = await open(damaged);
  await expect(prefetch(other.model, ["t0", "t39"])).rejects.toMatchObject({ code: "integrity/aero.page-hash" });
});
