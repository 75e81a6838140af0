import { describe, expect, test } from "vitest";
import { memorySource } from "../../src/bytes/memory.ts";
import { endlessArray, endlessCounts, endlessName } from "../builders/crafted-files.ts";
import { buildGguf, u64 } from "../builders/gguf.ts";
import { rawSafetensors } from "../builders/safetensors.ts";
import { countingSource } from "../support/counting-source.ts";
import { openCounted, refusalOf } from "./open-bytes.ts";

const HUGE = [2n ** 31n, 2n ** 32n, 2n ** 40n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n];

describe("length and count fields are never allocation sizes", () => {
  test.each(HUGE)("GGUF arrays of %d elements of any type are refused", async (count) => {
    for (let type = 0; type < 13; type++) {
      const error = await refusalOf(endlessArray(type, count));
      expect(error.code, `type ${type}`).toMatch(/^(format\/gguf\.header-bounds|limit\/integer)$/);
      expect(error.at.offset).toEqual(expect.any(Number));
    }
  });
  test.each(HUGE)("GGUF names of %d bytes are refused", async (length) => {
    const error = await refusalOf(endlessName(length));
    expect(error.code).toMatch(/^(format\/gguf\.header-bounds|limit\/integer)$/);
  });
  test.each(HUGE)("GGUF counts of %d are refused", async (count) => {
    for (const bytes of [endlessCounts(count, 0n), endlessCounts(0n, count), endlessCounts(count, count)]) {
      expect((await refusalOf(bytes)).code).toMatch(/^(format\/gguf\.count|limit\/integer)$/);
    }
  });
  test.each(HUGE)("SafeTensors headers of %d bytes are refused", async (length) => {
    const error = await refusalOf(rawSafetensors("{}", new Uint8Array(64), length), "x.safetensors");
    expect(error.code).toMatch(/^(format\/safetensors\.header-length|limit\/(integer|safetensors\.header-bytes))$/);
    expect(error.at.offset).toBe(0);
  });
  test("no refused length has been read: every read stays inside the file", async () => {
    const crafted = [endlessArray(8, 2n ** 40n), endlessName(2n ** 40n), rawSafetensors("{}", u64(0), 2n ** 26n)];
    for (const bytes of crafted) {
      const source = countingSource(memorySource(bytes, "x.safetensors"));
      await openCounted(source, "x.safetensors", new Map()).catch(() => undefined);
      for (const call of source.calls) expect(call.offset + call.byteLength).toBeLessThanOrEqual(bytes.byteLength);
    }
  });
  test("memory stays where it was over a thousand crafted files", async () => {
    const before = process.memoryUsage();
    for (let i = 0; i < 1000; i++) await refusalOf(endlessArray(i % 13, 2n ** 40n));
    const after = process.memoryUsage();
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(64 << 20);
  });
  test("counts that a long file could hold are still bounded by a limit", async () => {
    const kvCount = 2 ** 20 + 1;
    const error = await refusalOf(buildGguf({ kvCount, data: new Uint8Array(13 * kvCount) }));
    expect(error).toMatchObject({ name: "LimitError", code: "limit/gguf.keys" });
  });
});
