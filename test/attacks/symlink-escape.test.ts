import { lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { planConversion, writeConversion } from "../../src/operations/convert.ts";
import { nodeEngine } from "../../src/platform/node/engine/engine.ts";
import { directoryOutput } from "../../src/platform/node/files/directory.ts";
import { fileSink } from "../../src/platform/node/files/sink.ts";
import { openTarget } from "../../src/platform/node/targets.ts";
import { ggufPart, shard, shardIndex } from "../builders/crafted-files.ts";
import { READERS, writerById } from "../builders/loaded-formats.ts";
import { buildSafetensors, patternBytes } from "../builders/safetensors.ts";
import { openBytes } from "./open-bytes.ts";

let root: string;
let folder: string;
let victim: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "tare-links-"));
  folder = join(root, "model");
  victim = join(root, "victim");
  await mkdir(folder);
  await writeFile(victim, "precious");
});
afterEach(() => rm(root, { recursive: true }));

const ESCAPE = { name: "SourceError", code: "source/resolver.escape" };

describe("links do not lead reads out of the model's folder", () => {
  test("a shard that is a link to elsewhere is refused", async () => {
    await writeFile(join(root, "outside.safetensors"), shard(0));
    await symlink("../outside.safetensors", join(folder, "s.safetensors"));
    await writeFile(join(folder, "model.safetensors.index.json"), shardIndex(["s.safetensors"]));
    const outcome = openTarget(join(folder, "model.safetensors.index.json"), { engine: await nodeEngine() });
    await expect(outcome).rejects.toMatchObject(ESCAPE);
  });
  test("a folder of shards that is a link to elsewhere is refused", async () => {
    await mkdir(join(root, "outside"));
    await writeFile(join(root, "outside", "s.safetensors"), shard(0));
    await symlink("../outside", join(folder, "sub"));
    await writeFile(join(folder, "model.safetensors.index.json"), shardIndex(["sub/s.safetensors"]));
    const outcome = openTarget(join(folder, "model.safetensors.index.json"), { engine: await nodeEngine() });
    await expect(outcome).rejects.toMatchObject(ESCAPE);
  });
  test("a GGUF part that is a link to elsewhere is refused", async () => {
    await writeFile(join(root, "outside.gguf"), ggufPart(1, 2));
    await writeFile(join(folder, "m-00001-of-00002.gguf"), ggufPart(0, 2));
    await symlink("../outside.gguf", join(folder, "m-00002-of-00002.gguf"));
    const outcome = openTarget(join(folder, "m-00001-of-00002.gguf"), { engine: await nodeEngine() });
    await expect(outcome).rejects.toMatchObject(ESCAPE);
  });
  test("a link inside the folder is followed", async () => {
    await writeFile(join(folder, "real.gguf"), ggufPart(1, 2));
    await writeFile(join(folder, "m-00001-of-00002.gguf"), ggufPart(0, 2));
    await symlink("real.gguf", join(folder, "m-00002-of-00002.gguf"));
    const opened = await openTarget(join(folder, "m-00001-of-00002.gguf"), { engine: await nodeEngine() });
    expect(opened.container.parts).toHaveLength(2);
    await opened.close();
  });
});

describe("links do not lead writes out of the output's folder", () => {
  async function writeSet(overwrite: "refuse" | "replace"): Promise<void> {
    const tensors = ["a", "b"].map((name, i) => ({ name, dtype: "I8", shape: [64], bytes: patternBytes(64, i) }));
    const opened = await openBytes(buildSafetensors(tensors));
    const options = { name: "m.gguf", maxShardBytes: 64, formats: READERS };
    const conversion = planConversion(opened, writerById("gguf"), options);
    expect(conversion.plan.files.map(({ name }) => name)).toContain("m-00002-of-00002.gguf");
    const output = directoryOutput(folder, "m.gguf", { overwrite });
    await writeConversion(conversion, output, { engine: await nodeEngine() });
  }

  test("a planted link under a part's name is refused, or replaced and never followed", async () => {
    await symlink("../victim", join(folder, "m-00002-of-00002.gguf"));
    await expect(writeSet("refuse")).rejects.toMatchObject({ code: "usage/exists" });
    expect(await readdir(folder)).toEqual(["m-00002-of-00002.gguf"]);
    await writeSet("replace");
    expect(await readFile(victim, "utf8")).toBe("precious");
    expect((await lstat(join(folder, "m-00002-of-00002.gguf"))).isFile()).toBe(true);
  });
  test("a dangling link is refused as well: writing through it would make a file elsewhere", async () => {
    await symlink("../made-by-attack", join(folder, "m-00001-of-00002.gguf"));
    await expect(writeSet("refuse")).rejects.toMatchObject({ code: "usage/exists" });
    await writeSet("replace");
    expect(await readdir(root)).toEqual(["model", "victim"]);
  });
  test("a folder that is a link out of the output is refused", async () => {
    await mkdir(join(root, "outside"));
    await symlink("../outside", join(folder, "sub"));
    const output = directoryOutput(folder, "m.gguf", { overwrite: "replace" });
    await expect(output.create("sub/x.gguf")).rejects.toMatchObject(ESCAPE);
    expect(await readdir(join(root, "outside"))).toEqual([]);
  });
  test("a link that appears while a file is being written is not followed", async () => {
    const path = join(folder, "m.gguf");
    const sink = await fileSink(path, { overwrite: "refuse" });
    await sink.append(patternBytes(10));
    await symlink("../victim", path);
    await expect(sink.commit()).rejects.toMatchObject({ code: "usage/exists" });
    expect(await readFile(victim, "utf8")).toBe("precious");
    expect(await readdir(folder)).toEqual(["m.gguf"]);
  });
});
