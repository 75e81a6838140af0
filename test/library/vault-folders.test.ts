import { describe, expect, test } from "vitest";
import { convert, inspect, list, memory, openModel, shard } from "../../src/platform/node/index.ts";
import { createVault, openVault } from "../../src/platform/node/vault/library.ts";
import { at, code, env, open, path, sha, text, useVaultFolder, using } from "../support/vault-folder.ts";

useVaultFolder();

test("a directory of a vault opens as the one model in it, as a folder on disk does", async () => {
  const model = at("demo/demo.safetensors");
  const vault = at("folders.aerovault");
  await shard(model, at("sharded"), { maxSize: "40kB" });
  await using(await createVault(vault, { encryption: false, env }), async (opened) => {
    await opened.add([at("sharded"), at("reports")]);
    await opened.add(model, { to: "deep/implied" });
    await opened.add(model, { to: "export/onnx" });
    await opened.add([
      { path: "two/a.safetensors", data: "" },
      { path: "two/b.safetensors", data: "" },
    ]);
  });
  const names = (await list(model)).tensors?.map(({ name }) => name).sort() ?? [];
  for (const folder of ["sharded", "sharded/", "deep/implied", "export"])
    expect((await list(`${vault}::${folder}`)).tensors?.map(({ name }) => name).sort()).toEqual(names);
  expect((await inspect(`${vault}::sharded`)).tensorCount).toBe(names.length);
  const out = memory();
  await convert(`${vault}::sharded`, out, { to: "gguf", allowLossy: true });
  expect([...out.files.keys()]).toHaveLength(1);
  expect(await code(openModel(`${vault}::two`))).toBe("usage/ambiguous-target");
  expect(await code(openModel(`${vault}::reports`))).toBe("source/no-model");
  expect(await code(openModel(`${vault}::nothing`))).toBe("usage/entry-not-found");
  await using(await openVault(vault, { env }), async (opened) => {
    const inside = await opened.openModel("sharded");
    expect(inside.tensors).toHaveLength(names.length);
    await inside.close();
  });
});

describe("changes", () => {
  test("of a batch are made in the order of their calls, waited for or not", async () => {
    await using(await open(), async (vault) => {
      await vault.batch(async (v) => {
        await Promise.all([v.write("x", "1"), v.move("x", "y"), v.write("x", "2"), v.copy("y", "z"), v.remove("x")]);
        void v.write("last", "3");
        void v.move("last", "end");
      });
      const names = ["x", "y", "z", "last", "end"];
      expect(names.map((name) => vault.has(name))).toEqual([false, true, true, false, true]);
      expect(text(await vault.read("z"))).toBe("1");
    });
  });

  test("refuse names with white space at an end, which no vault stores", async () => {
    await using(await open(), async (vault) => {
      const before = sha(path);
      for (const change of [
        () => vault.write("x ", "1"),
        () => vault.mkdir(" made"),
        () => vault.move("notes", "notes2\t"),
        () => vault.copy("notes ", "x"),
        () => vault.remove("notes "),
      ])
        expect(await code(change())).toBe("usage/vault.path");
      expect(sha(path)).toBe(before);
    });
  });
});
