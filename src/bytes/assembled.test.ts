import { describe, expect, it } from "vitest";
import { sourceContract } from "../../test/contracts/source-contract.ts";
import { assembledSource } from "./assembled.ts";
import { memorySource } from "./memory.ts";
import { sliceSource } from "./slice.ts";

sourceContract("assembled of slices", async (bytes) => {
  const third = Math.floor(bytes.byteLength / 3);
  const whole = memorySource(bytes);
  const source = assembledSource(
    [
      { source: whole, offset: 0, byteLength: third },
      { source: sliceSource(whole, third, bytes.byteLength - third), offset: 0, byteLength: third },
      { source: whole, offset: 2 * third, byteLength: bytes.byteLength - 2 * third },
    ],
    "test",
  );
  return { source };
});

describe("assembledSource()", () => {
  it("puts runs and zeros one behind the other, empty ones too", async () => {
    const letters = memorySource(new TextEncoder().encode("abcdef"));
    const source = assembledSource(
      [
        { source: letters, offset: 4, byteLength: 2 },
        { zeros: 3 },
        { source: letters, offset: 0, byteLength: 0 },
        { source: letters, offset: 1, byteLength: 2 },
        { zeros: 0 },
      ],
      "test",
    );
    expect(source.byteLength).toBe(7);
    expect([...(await source.read(0, 7))]).toEqual([101, 102, 0, 0, 0, 98, 99]);
    expect([...(await source.read(1, 5))]).toEqual([102, 0, 0, 0, 98]);
  });

  it("has a descriptor exactly where all of its sources have one", () => {
    const bare = memorySource(new Uint8Array(4));
    const file = { kind: "file", path: "/x", byteLength: 4, identity: "1" } as const;
    const described = { ...bare, label: "x", byteLength: 4, descriptor: file, read: bare.read, stream: bare.stream };
    const part = { offset: 0, byteLength: 4 };
    expect(assembledSource([{ source: bare, ...part }], "t").descriptor).toBeUndefined();
    const found = assembledSource([{ source: described, ...part }, { zeros: 2 }], "t").descriptor;
    expect(found).toMatchObject({ kind: "assembled", files: [file], byteLength: 6 });
  });
});
