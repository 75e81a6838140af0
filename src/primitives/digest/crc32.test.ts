import { describe, expect, it } from "vitest";
import { encodeUtf8 } from "../../base/text.ts";
import { crc32Combine, crc32Javascript } from "./crc32.ts";

describe("crc32Combine", () => {
  it("gives the known answer for every cut of 123456789", () => {
    const bytes = encodeUtf8("123456789");
    for (let cut = 0; cut <= bytes.byteLength; cut++) {
      const [first, second] = [bytes.subarray(0, cut), bytes.subarray(cut)];
      const combined = crc32Combine(crc32Javascript(first, 0), crc32Javascript(second, 0), second.byteLength);
      expect(combined).toBe(0xcbf43926);
    }
  });

  it("reaches over lengths beyond 32 bits", () => {
    // 2^33 zero bytes after "a", compared with two steps of 2^32 zeros.
    const first = crc32Javascript(encodeUtf8("a"), 0);
    const half = crc32Combine(first, 0, 2 ** 32);
    expect(crc32Combine(first, 0, 2 ** 33)).toBe(crc32Combine(half, 0, 2 ** 32));
    expect(half).not.toBe(first);
  });
});
