import { expect, test } from "vitest";
import { sourceContract } from "../../../test/contracts/source-contract.ts";
import { memorySource } from "../memory.ts";
import { withMeter, withOwner } from "./base.ts";

sourceContract("metered", async (bytes) => ({ source: withMeter(memorySource(bytes), { reads: 0, bytes: 0 }) }));
sourceContract("owning", async (bytes) => ({
  source: withOwner(memorySource(bytes), { close: async () => undefined }),
}));

test("withMeter() counts reads, streams and the bytes that were really taken", async () => {
  const meter = { reads: 0, bytes: 0 };
  const source = withMeter(memorySource(new Uint8Array(3 << 20)), meter);
  await source.read(5, 10);
  for await (const piece of source.stream(0)) {
    expect(piece.byteLength).toBeGreaterThan(0);
    break;
  }
  expect(meter).toEqual({ reads: 2, bytes: 10 + (1 << 20) });
});

test("withOwner() closes the owner after the source", async () => {
  const closed: string[] = [];
  const inner = memorySource(new Uint8Array(1));
  const source = withOwner(inner, { close: async () => void closed.push("owner") });
  await source.close();
  expect(closed).toEqual(["owner"]);
  await expect(inner.read(0, 1)).rejects.toMatchObject({ code: "source/closed" });
});
