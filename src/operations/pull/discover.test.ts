import { describe, expect, test } from "vitest";
import { checkSetNames, checkWorkName } from "./discover.ts";

const SET = { label: "https://host/m.index.json", index: "m.index.json" };
const check =
  (...names: string[]) =>
  (): void =>
    checkSetNames(names, SET);

describe("checkSetNames()", () => {
  test("takes what sets and model repositories have", () => {
    expect(
      check(
        "model-00001-of-00002.safetensors",
        "sub/model-00002-of-00002.safetensors",
        "Q8_0/m-00001-of-00003.gguf",
        "part-000.aero",
        "part.aero.003",
        "weights.bin",
        "onnx/model.onnx_data",
        "sha256-0123456789abcdef0123",
        "模型-1.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.txt",
        "merges.txt",
        "sentencepiece.bpe.model",
        "README.md",
        "LICENSE",
        "LICENSE.txt",
      ),
    ).not.toThrow();
  });

  test.each([
    ".bash_profile",
    ".git/hooks/post-checkout",
    "a/.ssh/authorized_keys.bin",
    ".model.safetensors",
    "sitecustomize.py",
    "sub/conftest.py",
    "install.sh",
    "model.safetensors.exe",
    "Makefile",
    "package.json",
    "autorun.inf",
    "GIT~1/hooks/post-checkout.bin",
    "a.safetensors.tare-part",
    "a.safetensors.TARE-PULL",
    "tare.tare-pull.json",
    "mo\u200cdel.safetensors",
    "mo\u202edel.safetensors",
    "a*.safetensors",
    "readme.sh",
    "license.py",
    "config.json.sh",
  ])("refuses %s", (name) => {
    expect(check("a.safetensors", name)).toThrow(expect.objectContaining({ code: "source/pull.name" }));
  });

  test.each(["../x.bin", "a/../b.bin", "/etc/x.bin", "a\\b.bin", "NUL.bin", "x.bin.", "c:x.bin"])(
    "leaves what leads out of the folder to the rule of all names: %s",
    (name) => {
      expect(check(name)).toThrow(expect.objectContaining({ code: "source/resolver.escape" }));
    },
  );

  test.each([
    ["case", "Part.safetensors", "part.safetensors"],
    ["case of a folder and its file", "A/x.safetensors", "a/X.safetensors"],
    ["Unicode form", "caf\u00e9.safetensors", "cafe\u0301.safetensors"],
    ["folding", "stra\u00dfe.safetensors", "STRASSE.safetensors"],
    ["a file that is a folder", "a.bin", "A.bin/b.safetensors"],
    ["the index itself", "M.index.json", "a.safetensors"],
  ])("refuses names that are one on some file system: %s", (_, first, second) => {
    expect(check(first, second)).toThrow(expect.objectContaining({ code: "usage/pull.collision" }));
    expect(check(second, first)).toThrow(expect.objectContaining({ code: "usage/pull.collision" }));
  });

  test("a name may be given more than once", () => {
    expect(check("a.safetensors", "a.safetensors", "A/b.safetensors", "a/c.safetensors")).not.toThrow();
  });

  test.each([`${"b".repeat(300)}.safetensors`, `${"é".repeat(115)}.bin`, `${"d/".repeat(520)}x.bin`])(
    "says of a name that is too long that it is (%#)",
    (name) => {
      expect(check(name)).toThrow(expect.objectContaining({ code: "limit/pull.name-bytes" }));
    },
  );
});

describe("checkWorkName()", () => {
  test("leaves it to the user what a single file is called, but for work files", () => {
    for (const name of ["install.sh", ".gitattributes", "notes"]) expect(() => checkWorkName(name, "x")).not.toThrow();
    for (const name of ["m.gguf.tare-part", ".tare-pull.json", ".tare-pull.lock"]) {
      expect(() => checkWorkName(name, "x")).toThrow(expect.objectContaining({ code: "source/pull.name" }));
    }
  });
});
