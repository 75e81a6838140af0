import { expect, test } from "vitest";
import { convert, inspect, list, memory, openModel, shard } from "../../src/platform/node/index.ts";
import { createVault, openVault } from "../../src/platform/node/vault/library.ts";
import { at, code, env, useVaultFolder, using } from "../support/vault-folder.ts";

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
