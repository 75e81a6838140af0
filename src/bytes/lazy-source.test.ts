import { expect, test } from "vitest";
import { sourceContract } from "../../test/contracts/source-contract.ts";
import { LazySource } from "./lazy-source.ts";
import { memorySource } from "./memory.ts";

sourceContract("lazily opened", async (bytes) => {
  const inner = memorySource(bytes, "inner");
  return {
    source: new LazySource({ label: "lazy", byteLength: bytes.byteLength, open: async () => inner }),
    dispose: () => inner.close(),
  };
});

test("LazySource opens nothing for refused and for empty reads", async () => {
  let opened = 0;
  const open = async () => {
    opened++;
    return memorySource(new Uint8Array(0));
  };
  const empty = new LazySource({ label: "empty", byteLength: 0, open });
  expect(await empty.read(0, 0)).toEqual(new Uint8Array(0));
  await expect(empty.read(0, 1)).rejects.toMatchObject({ code: "source/out-of-range" });
  expect(opened).toBe(0);
});

test("LazySource lets a reader give up while the file is still being opened", async () => {
  const controller = new AbortController();
  const source = new LazySource({ label: "slow", byteLength: 4, open: () => new Promise(() => undefined) });
  const read = source.read(0, 4, { signal: controller.signal });
  const stream = source.stream(0, { signal: controller.signal })[Symbol.asyncIterator]().next();
  controller.abort();
  await expect(read).rejects.toMatchObject({ name: "AbortError" });
  await expect(stream).rejects.toMatchObject({ name: "AbortError" });
});
