import { describe, expect, test } from "vitest";
import { sinkContract } from "../../test/contracts/sink-contract.ts";
import { sourceContract } from "../../test/contracts/source-contract.ts";
import { memoryOutput, memorySink, memorySource } from "./memory.ts";

sourceContract("memory", async (bytes) => ({ source: memorySource(bytes) }));

describe("memorySource()", () => {
  test("hands out views, not copies", async () => {
    const bytes = Uint8Array.of(1, 2, 3, 4);
    const view = await memorySource(bytes).read(1, 2);
    expect(view.buffer).toBe(bytes.buffer);
    expect([...view]).toEqual([2, 3]);
  });
});

sinkContract("memory", { reopen: "any" }, async () => {
  const sink = memorySink();
  return { sink, published: async () => sink.published, leftovers: async () => [] };
});

describe("memoryOutput()", () => {
  test("shows files by name once they are committed", async () => {
    const output = memoryOutput("model.gguf");
    const sink = await output.create("sub/part.bin");
    await sink.append(Uint8Array.of(1, 2));
    expect(output.files.size).toBe(0);
    await sink.commit();
    expect([...output.files]).toEqual([["sub/part.bin", Uint8Array.of(1, 2)]]);
  });
  test("refuses names that lead out and names that are taken", async () => {
    const output = memoryOutput("x");
    await expect(output.create("../x")).rejects.toMatchObject({ code: "source/resolver.escape" });
    const [first, second] = [await output.create("x"), await output.create("x")];
    await first.commit();
    await expect(second.commit()).rejects.toMatchObject({ code: "usage/exists" });
    await expect(output.create("x")).rejects.toMatchObject({ code: "usage/exists" });
  });
});
