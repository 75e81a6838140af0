import { describe, expect, test } from "vitest";
import { patternBytes, sourceContract } from "../../test/contracts/source-contract.ts";
import { LazySource, overlaidSource, overlayBytes } from "./derived.ts";
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

sourceContract("overlaid", async (bytes) => {
  const damaged = bytes.slice(0, -1000);
  damaged.fill(7, 300, 5000);
  const overlays = [
    overlayBytes(300, bytes.slice(300, 5000)),
    overlayBytes(bytes.byteLength - 1000, bytes.slice(-1000)),
  ];
  return { source: overlaidSource(memorySource(damaged), bytes.byteLength, overlays) };
});

describe("overlaidSource()", () => {
  test("has zeros beyond the end of what it lies over, and ends where it is told to", async () => {
    const longer = overlaidSource(memorySource(patternBytes(4)), 6, []);
    expect([...(await longer.read(2, 4))]).toEqual([...patternBytes(4).slice(2), 0, 0]);
    expect(overlaidSource(memorySource(patternBytes(4)), 3, []).byteLength).toBe(3);
  });

  test("of overlays that share bytes the last one counts", async () => {
    const overlays = [overlayBytes(0, Uint8Array.of(1, 2)), overlayBytes(1, Uint8Array.of(3, 4))];
    expect([...(await overlaidSource(memorySource(new Uint8Array(4)), 4, overlays).read(0, 4))]).toEqual([1, 3, 4, 0]);
  });
});
