import { describe, expect, test } from "vitest";
import { patternBytes, sourceContract } from "../../test/contracts/source-contract.ts";
import { memorySource } from "./memory.ts";
import { overlaidSource, overlayBytes } from "./overlaid.ts";

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
