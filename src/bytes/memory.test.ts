import { describe, expect, test } from "vitest";
import { sourceContract } from "../../test/contracts/source-contract.ts";
import { memorySource } from "./memory.ts";

sourceContract("memory", async (bytes) => ({ source: memorySource(bytes) }));

describe("memorySource()", () => {
  test("hands out views, not copies", async () => {
    const bytes = Uint8Array.of(1, 2, 3, 4);
    const view = await memorySource(bytes).read(1, 2);
    expect(view.buffer).toBe(bytes.buffer);
    expect([...view]).toEqual([2, 3]);
  });
});
