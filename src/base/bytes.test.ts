import { expect, it } from "vitest";
import { readMemory } from "./bytes.ts";

it.each([0, 1, 65_535, 65_536, 1 << 20])("gives %i zeros, aligned for words of any width", (byteLength) => {
  const memory = readMemory(byteLength);
  expect(memory.byteLength).toBe(byteLength);
  expect(memory.byteOffset % 16).toBe(0);
  expect(memory.every((byte) => byte === 0)).toBe(true);
});

it("long memory begins well inside its block and reaches to the end of it", () => {
  const memory = readMemory(1 << 20);
  expect(memory.byteOffset).toBeGreaterThan(1024);
  const again = new Uint8Array(memory.subarray(0, 10).buffer, memory.byteOffset);
  expect(again.byteLength).toBe(memory.byteLength);
});
