import { describe, expect, it } from "vitest";
import { measureEngine } from "./measure.ts";
import { portableEngine } from "./portable.ts";

describe("measureEngine()", () => {
  it("gives the speed and the implementation of every primitive in the table", async () => {
    const rows = await measureEngine(portableEngine({ tier: "javascript" }), { milliseconds: 3 });
    expect(rows.map(({ primitive, implementation }) => `${primitive}: ${implementation}`)).toEqual([
      "sha256: javascript",
      "blake3: javascript",
      "crc32: javascript",
      "zstd: javascript",
      "lz4: javascript",
      "quantizer: javascript",
      "sha512: javascript",
      "aes: javascript",
      "aes-gcm-siv: javascript",
      "gear: javascript",
      "reed-solomon: javascript",
      "sha1: javascript",
      "aes-blocks: javascript",
      "chacha20-poly1305: javascript",
    ]);
    for (const { bytesPerSecond } of rows) expect(bytesPerSecond).toBeGreaterThan(1e5);
  });
});
