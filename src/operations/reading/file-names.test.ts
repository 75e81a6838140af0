import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatById } from "../../formats/registry.ts";
import type { Format } from "../../model/format.ts";
import { fileNamesFor, nameAfter } from "./file-names.ts";

const one = (name: string): string | undefined => fileNamesFor([name], ".bin").get(name);

/** Any code points at all, lone surrogates included. */
const anyText = fc
  .array(fc.oneof(fc.integer({ min: 0, max: 0x10ffff }), fc.constantFrom(0x2e, 0x2f, 0x5c, 0x41, 0x61)), {
    maxLength: 12,
  })
  .map((points) => String.fromCodePoint(...points));

describe("fileNamesFor()", () => {
  it.each([
    ["model.layers.0.mlp.weight", "model.layers.0.mlp.weight.bin"],
    ["层.权重", "层.权重.bin"],
    ["../../etc/passwd", "__.._etc_passwd.bin"],
    ["a/b\\c:d", "a_b_c_d.bin"],
    ["", "_.bin"],
    ["..", "_.bin"],
    [".hidden", "_hidden.bin"],
    ["nul\0byte", "nul_byte.bin"],
    ["CON", "_CON.bin"],
    ["com1.weight", "_com1.weight.bin"],
    ["-rf", "_-rf.bin"],
    ["trailing.", "trailing_.bin"],
  ])("makes %j safe", (name, file) => {
    expect(one(name)).toBe(file);
  });

  it("keeps names distinct that only differ in case or in replaced characters", () => {
    const files = fileNamesFor(["W", "w", "a/b", "a:b", "ﬁ", "FI"], ".npy");
    expect([...files.values()]).toEqual(["W.npy", "w~2.npy", "a_b.npy", "a_b~2.npy", "ﬁ.npy", "FI~2.npy"]);
  });

  it("keeps names distinct that only differ in invisible characters", () => {
    expect([...fileNamesFor(["w", "w\u3164", "w\uffa0"], ".bin").values()]).toEqual([
      "w.bin",
      "w\u3164~2.bin",
      "w\uffa0~3.bin",
    ]);
  });

  it("cuts long names and keeps them distinct by a digest", () => {
    const names = ["x".repeat(1000), `${"x".repeat(999)}y`, "层".repeat(300)];
    const files = [...fileNamesFor(names, ".safetensors").values()];
    expect(new Set(files).size).toBe(3);
    for (const file of files) expect(Buffer.byteLength(file)).toBeLessThan(200);
  });

  it("never leads out of the folder, whatever the names", () => {
    fc.assert(
      fc.property(fc.array(anyText, { maxLength: 8 }), (names) => {
        const unique = [...new Set(names)];
        const files = [...fileNamesFor(unique, ".bin").values()];
        const distinct = new Set(files.map((file) => file.toLowerCase())).size === unique.length;
        return distinct && files.every((file) => /^[\p{L}\p{N}_][\p{L}\p{N}._~-]*\.bin$/u.test(file));
      }),
      { numRuns: 200 },
    );
  });
});

it.each([
  ["models/model.safetensors", "model.gguf"],
  ["https://example.org/a/model.gguf?…", "model.gguf"],
  ["model-00001-of-00003.gguf", "model.gguf"],
  ["model.safetensors.index.json", "model.gguf"],
  ["llama-3.2-1b.gguf", "llama-3.2-1b.gguf"],
  ["standard input", "model.gguf"],
  ["-", "model.gguf"],
])("nameAfter() of %s", (label, name) => {
  expect(nameAfter(label, formatById("gguf") as Format)).toBe(name);
});
