import { describe, expect, it } from "vitest";
import { parseDigestList } from "./digest-list.ts";

const digest = { name: "w", algorithm: "sha256", hex: "ab".repeat(32) };

describe("parseDigestList()", () => {
  it("takes a verify report and a bare list", () => {
    expect(parseDigestList(JSON.stringify({ ok: true, digests: [digest] }), "x")).toEqual([digest]);
    expect(parseDigestList(JSON.stringify([digest]), "x")).toEqual([digest]);
  });

  it.each([
    "not json",
    "{}",
    "[]",
    "null",
    JSON.stringify([{ ...digest, hex: "ab" }]),
    JSON.stringify([{ ...digest, algorithm: "md5" }]),
    JSON.stringify([digest, null]),
  ])("refuses %s", (text) => {
    expect(() => parseDigestList(text, "x")).toThrow(expect.objectContaining({ code: "usage/digest-list" }));
  });
});
