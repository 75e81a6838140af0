import { describe, expect, test } from "vitest";
import { patternBytes, sourceContract } from "../../test/contracts/source-contract.ts";
import { concatBytes } from "../base/bytes.ts";
import { blobSource } from "./blob.ts";
import { memorySource } from "./memory.ts";
import { isSlice, sliceSource } from "./slice.ts";

const around = (bytes: Uint8Array<ArrayBuffer>) => concatBytes([patternBytes(17), bytes, patternBytes(23)]);

sourceContract("slice", async (bytes) => ({ source: sliceSource(memorySource(around(bytes)), 17, bytes.byteLength) }), {
  closing: "shared",
});

describe("sliceSource()", () => {
  test("reads a slice of a slice from the whole", async () => {
    const whole = memorySource(Uint8Array.of(0, 1, 2, 3, 4, 5, 6, 7), "whole");
    const inner = sliceSource(sliceSource(whole, 2, 5), 1, 3);
    expect([inner.whole, inner.start, inner.label]).toEqual([whole, 3, "whole"]);
    expect([...(await inner.read(0, 3))]).toEqual([3, 4, 5]);
    expect([isSlice(inner), isSlice(whole)]).toEqual([true, false]);
  });
  test("refuses a run outside the source", () => {
    const whole = memorySource(new Uint8Array(4));
    expect(() => sliceSource(whole, 2, 3)).toThrow(expect.objectContaining({ code: "source/out-of-range" }));
  });
  test("has a descriptor where the whole has one", () => {
    const blob = new Blob(["abcdef"]);
    const slice = sliceSource(blobSource(blob), 1, 4);
    expect(slice.descriptor).toEqual({ kind: "slice", of: { kind: "blob", blob }, offset: 1, byteLength: 4 });
    expect(sliceSource(memorySource(new Uint8Array(4)), 1, 2).descriptor).toBeUndefined();
  });
});
