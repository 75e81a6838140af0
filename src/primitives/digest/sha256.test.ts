import { describe, expect, it } from "vitest";
import type { Bytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/text.ts";
import { sha256 } from "./sha256.ts";

/** A compression that takes no time, so that inputs may exceed 2^32 bits. Keeps its last input. */
function recordLast(): { readonly last: () => Bytes; readonly compress: (state: Bytes, blocks: Bytes) => void } {
  let last: Bytes = new Uint8Array(0);
  return {
    last: () => last,
    compress: (_state, blocks) => {
      last = blocks.slice(-128);
    },
  };
}

describe("sha256() padding, FIPS 180-4 §5.1.1", () => {
  it.each([
    [0, 64],
    [55, 64],
    [56, 128],
    [63, 128],
    [64, 64],
  ])("the padding of %i bytes makes a tail of %i bytes", (byteLength, expected) => {
    const core = recordLast();
    const hasher = sha256(core).create();
    hasher.update(new Uint8Array(byteLength));
    hasher.digest();
    const tail = core.last();
    expect(tail.byteLength).toBe(expected);
    expect(tail[byteLength % 64]).toBe(0x80);
    expect(new DataView(tail.buffer).getUint32(expected - 4)).toBe(8 * byteLength);
  });

  it("the length in bits goes beyond 32 bits", () => {
    const core = recordLast();
    const hasher = sha256(core).create();
    const piece = new Uint8Array(1 << 26);
    for (let i = 0; i < 33; i++) hasher.update(piece); // 33 * 2^26 bytes are 33 * 2^29 = 0x4_2000_0000 bits
    hasher.update(new Uint8Array(1));
    hasher.digest();
    expect(encodeHex(core.last().slice(-8))).toBe("0000000420000008");
  });
});
