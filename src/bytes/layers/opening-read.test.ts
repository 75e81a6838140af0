import { describe, expect, test } from "vitest";
import { drain, patternBytes, sourceContract } from "../../../test/contracts/source-contract.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { blobSource } from "../blob.ts";
import { memorySource } from "../memory.ts";
import { withHead } from "./opening-read.ts";

sourceContract("headed", async (bytes) => ({
  source: withHead(memorySource(bytes), bytes.slice(0, 262_144)),
}));
sourceContract("headed, everything in the head", async (bytes) => ({
  source: withHead(memorySource(bytes), bytes.slice()),
}));
sourceContract("headed, empty head", async (bytes) => ({ source: withHead(memorySource(bytes), new Uint8Array(0)) }));

describe("withHead()", () => {
  const make = () => {
    const bytes = patternBytes(1000);
    const below = countingSource(memorySource(bytes));
    return { below, source: withHead(below, bytes.slice(0, 100)) };
  };
  test("reads inside the head cost nothing", async () => {
    const { below, source } = make();
    await source.read(0, 100);
    await source.read(99, 1, { into: new Uint8Array(1) });
    await drain(source, 10, { byteLength: 90 });
    expect(below.calls).toEqual([]);
  });
  test("a read that goes beyond fetches only the rest", async () => {
    const { below, source } = make();
    await source.read(90, 30);
    await drain(source, 50, { byteLength: 60 });
    expect(below.calls).toEqual([
      { kind: "read", offset: 100, byteLength: 20 },
      { kind: "stream", offset: 100, byteLength: 10 },
    ]);
  });
  test("a long stream of stated length is read whole, so that its pieces line up with its beginning", async () => {
    const bytes = patternBytes(100 + (16 << 20));
    const below = countingSource(memorySource(bytes));
    const source = withHead(below, bytes.slice(0, 100));
    let total = 0;
    for await (const piece of source.stream(50, { byteLength: bytes.byteLength - 50 })) total += piece.byteLength;
    for await (const piece of source.stream(50)) total += piece.byteLength;
    expect(total).toBe(2 * (bytes.byteLength - 50));
    expect(below.calls.map(({ offset }) => offset)).toEqual([50, 100]);
  });
  test("has the descriptor of the source below", () => {
    const blob = new Blob(["abcdef"]);
    expect(withHead(blobSource(blob), Uint8Array.of(97)).descriptor).toEqual({ kind: "blob", blob });
    expect(withHead(memorySource(Uint8Array.of(1, 2)), Uint8Array.of(1)).descriptor).toBeUndefined();
  });
  test("ignores a head that is longer than the source", async () => {
    const source = withHead(memorySource(Uint8Array.of(1, 2)), Uint8Array.of(1, 2, 3));
    await expect(source.read(0, 3)).rejects.toMatchObject({ code: "source/out-of-range" });
  });
});
