import { describe, expect, it } from "vitest";
import { words } from "../../../test/vectors/zstd.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { xxh64 } from "./xxh64.ts";

describe("xxh64()", () => {
  // Values of the xxHash command line, seed 0.
  it.each([
    ["", 0xef46db3751d8e999n],
    ["a", 0xd24ec4f1a98c6e5bn],
    ["abc", 0x44bc2cf5ad770999n],
  ])('of "%s" is known', (text, hash) => {
    expect(xxh64(encodeUtf8(text))).toBe(hash);
  });

  it("of 300 bytes has the low word that libzstd writes after them", () => {
    expect(xxh64(words(300)) & 0xffff_ffffn).toBe(0xaf76de37n);
  });
});
