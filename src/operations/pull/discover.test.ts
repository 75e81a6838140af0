import { describe, expect, test } from "vitest";
import { checkSetNames, checkWorkName } from "./discover.ts";

const SET = { label: "https://host/m.index.json", format: "safetensors", index: "m.index.json" };
const check =
  (...names: string[]) =>
  (): void =>
    checkSetNames(names, SET);

describe("checkSetNames()", () => {
  test.each([
    ["safetensors", ["model-00001-of-00002.safetensors", "sub/model-00002-of-00002.safetensors", "模型-1.SafeTensors"]],
    ["gguf", ["Q8_0/m-00001-of-00003.gguf"]],
    ["aeroset", ["part-000.aero", "part.aero.003", "sha256-0123456789abcdef0123"]],
    ["apr", ["m-00001-of-00002.apr"]],
  ])("accepts the names of %s sets", (format, names) => {
    expect(() => checkSetNames(names, { ...SET, format })).not.toThrow();
  });

  test("accepts PyTorch's shards if the index has their name", () => {
    const names = ["pytorch_model-00001-of-00002.bin"];
    expect(() => checkSetNames(names, { ...SET, index: "pytorch_model.bin.index.json" })).not.toThrow();
    expect(check(...names)).toThrow(expect.objectContaining({ code: "source/pull.name" }));
  });

  test.each(["safetensors", "aeroset", "apr", "gguf", "onnx"])(
    "refuses parts of another kind in a set of %s",
    (format) => {
      const own = ["a.safetensors", "a.aero", "a.apr", "a.gguf", "a.weights", "a.onnx"];
      const others = [
        ...["zz.pth", "venv/lib/python3.11/site-packages/zz.pth", "a.pt", "a.ckpt", "a.bin", "a.data", "a.pb", "a.h5"],
        ...["a.npz", "a.mlmodel", "config.json", "tokenizer.json", "modules.json", "vocab.txt", "README.md", "LICENSE"],
        ...[
          "a.so",
          "a.dll",
          "a.node",
          "a.whl",
          "a.jar",
          "x.egg-link",
          "setup.cfg",
          "tox.ini",
          "CMakeLists.txt",
          "a.mk",
        ],
      ];
      const kept = [...own, ...others].filter((name) => {
        try {
          checkSetNames([name], { label: "x", format });
          return true;
        } catch {
          return false;
        }
      });
      const mine: Record<string, string[]> = { aeroset: ["a.aero"], onnx: [] };
      expect(kept).toEqual(mine[format] ?? [`a.${format}`]);
    },
  );

  test.each([
    "venv/lib/python3.11/site-packages/zz.safetensors",
    "usr/lib/python3/Dist-Packages/torch/zz.safetensors",
    "node_modules/x/a.safetensors",
    "etc/cron.d/a.safetensors",
    "Library/LaunchAgents/a.safetensors",
  ])("refuses a folder whose files programs use on their own: %s", (name) => {
    expect(check(name)).toThrow(expect.objectContaining({ code: "source/pull.name" }));
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
    "leaves names that lead out of the folder to the general rule: %s",
    (name) => {
      expect(check(name)).toThrow(expect.objectContaining({ code: "source/resolver.escape" }));
    },
  );

  test.each([
    ["case", "Part.safetensors", "part.safetensors"],
    ["case of a folder and its file", "A/x.safetensors", "a/X.safetensors"],
    ["Unicode form", "caf\u00e9.safetensors", "cafe\u0301.safetensors"],
    ["folding", "stra\u00dfe.safetensors", "STRASSE.safetensors"],
    ["a file that is a folder", "a.safetensors", "A.safetensors/b.safetensors"],
    ["the index itself", "M.index.json/b.safetensors", "a.safetensors"],
  ])("refuses names that are equal on some file system: %s", (_, first, second) => {
    expect(check(first, second)).toThrow(expect.objectContaining({ code: "usage/pull.collision" }));
    expect(check(second, first)).toThrow(expect.objectContaining({ code: "usage/pull.collision" }));
  });

  test("accepts a name that is listed more than once", () => {
    expect(check("a.safetensors", "a.safetensors", "A/b.safetensors", "a/c.safetensors")).not.toThrow();
  });

  test.each([`${"b".repeat(300)}.safetensors`, `${"é".repeat(115)}.safetensors`, `${"d/".repeat(520)}x.safetensors`])(
    "refuses a name that is too long (%#)",
    (name) => {
      expect(check(name)).toThrow(expect.objectContaining({ code: "limit/pull.name-bytes" }));
    },
  );
});

describe("checkWorkName()", () => {
  test("accepts any name of a single file, except for work files", () => {
    for (const name of ["install.sh", ".gitattributes", "notes"]) expect(() => checkWorkName(name, "x")).not.toThrow();
    for (const name of ["m.gguf.tare-part", ".tare-pull.json", ".tare-pull.lock"]) {
      expect(() => checkWorkName(name, "x")).toThrow(expect.objectContaining({ code: "source/pull.name" }));
    }
  });
});
