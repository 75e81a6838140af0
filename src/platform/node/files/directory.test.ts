import { execFileSync } from "node:child_process";
import { linkSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Output } from "../../../bytes/sink.ts";
import { directoryOutput, directoryResolver } from "./directory.ts";

let root: string;
let folder: string;
let count = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "tare-directory-"));
});
beforeEach(async () => {
  folder = join(root, String(count++));
  await mkdir(folder);
});
afterAll(() => rm(root, { recursive: true }));

const ESCAPE = { name: "SourceError", code: "source/resolver.escape" };

describe("directoryResolver()", () => {
  async function text(primary: string, name: string): Promise<string> {
    const source = await directoryResolver(primary).resolve(name);
    const bytes = await source.read(0, source.byteLength);
    await source.close();
    return new TextDecoder().decode(bytes);
  }

  test("opens siblings and files below, and names them as the user would", async () => {
    await mkdir(join(folder, "sub"));
    await writeFile(join(folder, "b"), "beside");
    await writeFile(join(folder, "sub", "c"), "below");
    const resolver = directoryResolver(join(folder, "a"));
    expect(resolver.name).toBe("a");
    expect(await text(join(folder, "a"), "b")).toBe("beside");
    expect(await text(join(folder, "a"), "sub/c")).toBe("below");
    const source = await resolver.resolve("b");
    expect(source.label).toBe(join(folder, "b"));
    await source.close();
    await expect(resolver.resolve("none")).rejects.toMatchObject({ code: "source/not-found" });
    await expect(resolver.resolve("sub")).rejects.toMatchObject({ code: "source/is-directory" });
  });
  test("refuses names that lead out", async () => {
    await writeFile(join(root, "outside"), "no");
    const resolver = directoryResolver(join(folder, "a"));
    for (const name of ["../outside", join(root, "outside"), "sub/../../outside", "..\\outside", "C:x", "", "a\0"]) {
      await expect(resolver.resolve(name)).rejects.toMatchObject(ESCAPE);
    }
  });
  test("follows links inside the folder, refuses links that lead out", async () => {
    await writeFile(join(root, "outside"), "no");
    await mkdir(join(root, "elsewhere"), { recursive: true });
    await writeFile(join(root, "elsewhere", "x"), "no");
    await writeFile(join(folder, "a"), "primary");
    await writeFile(join(folder, "b"), "yes");
    await symlink("b", join(folder, "inside"));
    await symlink("../outside", join(folder, "escape"));
    await symlink("../elsewhere", join(folder, "dir"));
    expect(await text(join(folder, "a"), "inside")).toBe("yes");
    for (const name of ["escape", "dir/x"]) {
      await expect(directoryResolver(join(folder, "a")).resolve(name)).rejects.toMatchObject(ESCAPE);
    }
  });
  test("opens the layout of the Hugging Face cache, and nothing besides its blobs", async () => {
    const [blobs, snapshot] = [join(folder, "blobs"), join(folder, "snapshots", "f00d")];
    await mkdir(blobs);
    await mkdir(snapshot, { recursive: true });
    await writeFile(join(blobs, "1111"), "index");
    await writeFile(join(blobs, "2222"), "shard");
    await writeFile(join(folder, "private"), "no");
    await symlink("../../blobs/1111", join(snapshot, "model.safetensors.index.json"));
    await symlink("../../blobs/2222", join(snapshot, "model-1.safetensors"));
    await symlink("../../private", join(snapshot, "model-2.safetensors"));
    const primary = join(snapshot, "model.safetensors.index.json");
    expect(await text(primary, "model-1.safetensors")).toBe("shard");
    await expect(directoryResolver(primary).resolve("model-2.safetensors")).rejects.toMatchObject(ESCAPE);
  });
  test("reaches files above a folder of exports, and only there", async () => {
    const snapshot = join(folder, "snapshots", "f00d");
    await mkdir(join(snapshot, "onnx"), { recursive: true });
    await mkdir(join(folder, "blobs"));
    await writeFile(join(folder, "blobs", "1111"), "model");
    await writeFile(join(folder, "blobs", "2222"), "config");
    await writeFile(join(folder, "private"), "no");
    await writeFile(join(snapshot, "plain.json"), "plain");
    await symlink("../../../blobs/1111", join(snapshot, "onnx", "model.onnx"));
    await symlink("../../blobs/2222", join(snapshot, "config.json"));
    await symlink("../../private", join(snapshot, "escape"));
    const { above } = directoryResolver(join(snapshot, "onnx", "model.onnx"));
    for (const [name, content] of [
      ["plain.json", "plain"],
      ["config.json", "config"],
    ] as const) {
      const source = await above?.resolve(name);
      expect(new TextDecoder().decode(await source?.read(0, content.length))).toBe(content);
      await source?.close();
    }
    await expect(above?.resolve("escape")).rejects.toMatchObject(ESCAPE);
    await expect(above?.resolve("../../private")).rejects.toMatchObject(ESCAPE);
    expect(above?.above).toBeUndefined();
    expect(directoryResolver(join(snapshot, "model.onnx")).above).toBeUndefined();
  });
  test.skipIf(process.platform === "win32")("refuses a pipe, which would block", async () => {
    execFileSync("mkfifo", [join(folder, "pipe")]);
    const resolver = directoryResolver(join(folder, "a"));
    await expect(resolver.resolve("pipe")).rejects.toMatchObject({ code: "source/not-a-file" });
  });
});

describe("directoryOutput()", () => {
  test("makes folders and files below its root", async () => {
    const output = directoryOutput(join(folder, "new", "out"), "model.gguf", { overwrite: "refuse" });
    expect([output.name, output.label]).toEqual(["model.gguf", join(folder, "new", "out", "model.gguf")]);
    const sink = await output.create("parts/one.bin");
    await sink.append(Uint8Array.of(65));
    await sink.commit();
    expect(await readFile(join(folder, "new", "out", "parts", "one.bin"), "utf8")).toBe("A");
    await expect(output.create("parts/one.bin")).rejects.toMatchObject({ code: "usage/exists" });
  });
  test("refuses names and links that lead out, and makes nothing there", async () => {
    await mkdir(join(root, "target"), { recursive: true });
    await symlink("../target", join(folder, "link"));
    const output = directoryOutput(folder, "model.gguf", { overwrite: "replace" });
    for (const name of ["../x", "/tmp/x", "a/../../x", "nul.txt", "link/x", "link/deep/x"]) {
      await expect(output.create(name)).rejects.toMatchObject(ESCAPE);
    }
    expect(await readdir(join(root, "target"))).toEqual([]);
  });
  test("writes through a link only if the user named it", async () => {
    await writeFile(join(root, "victim"), "old");
    await symlink("../victim", join(folder, "named"));
    await symlink("../victim", join(folder, "other"));
    const output = directoryOutput(folder, "named", { overwrite: "replace" });
    for (const [name, text] of [
      ["other", "1"],
      ["named", "2"],
    ] as const) {
      const sink = await output.create(name);
      await sink.append(new TextEncoder().encode(text));
      await sink.commit();
    }
    expect((await lstat(join(folder, "other"))).isSymbolicLink()).toBe(false);
    expect(await readFile(join(folder, "other"), "utf8")).toBe("1");
    expect(await readFile(join(root, "victim"), "utf8")).toBe("2");
  });
});

function makeFolder(): { readonly path: (name: string) => string; readonly output: Required<Output> } {
  const folder = mkdtempSync(join(tmpdir(), "tare-output-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const output = directoryOutput(folder, "m.json", { overwrite: "refuse" }) as Required<Output>;
  return { path: (name) => join(folder, name), output };
}

test("peek() opens an existing file, and returns nothing otherwise", async () => {
  const { path, output } = makeFolder();
  expect(await output.peek("part.aero")).toBeUndefined();
  writeFileSync(path("part.aero"), "abc");
  const source = await output.peek("part.aero");
  expect(source?.byteLength).toBe(3);
  await source?.close();
});

test("peek() does not follow a link out of the folder", async () => {
  const { path, output } = makeFolder();
  symlinkSync("/etc/hostname", path("part.aero"));
  expect(await output.peek("part.aero")).toBeUndefined();
});

test("the file that the user named is read and removed through a link, which stays", async () => {
  const { path, output } = makeFolder();
  writeFileSync(path("real.json"), "{}");
  symlinkSync("real.json", path("m.json"));
  const source = await output.peek("m.json");
  expect(source?.byteLength).toBe(2);
  await source?.close();
  await output.remove("m.json");
  expect(readdirSync(path("."))).toEqual(["m.json"]);
});

test("replace() swaps a file that create() refuses, and leaves no other file", async () => {
  const { path, output } = makeFolder();
  await output.replace(".m.json.tare-resume", new TextEncoder().encode("one"));
  await output.replace(".m.json.tare-resume", new TextEncoder().encode("two"));
  expect(readFileSync(path(".m.json.tare-resume"), "utf8")).toBe("two");
  expect(readdirSync(path("."))).toEqual([".m.json.tare-resume"]);
  await expect(output.create(".m.json.tare-resume")).rejects.toMatchObject({ code: "usage/exists" });
});

test("remove() removes a file once, and nothing outside the folder", async () => {
  const { path, output } = makeFolder();
  writeFileSync(path("part.aero"), "abc");
  await output.remove("part.aero");
  await output.remove("part.aero");
  expect(readdirSync(path("."))).toEqual([]);
  symlinkSync(tmpdir(), path("elsewhere"));
  for (const name of ["../x", "/etc/x", "elsewhere/x"]) {
    await expect(output.remove(name)).rejects.toMatchObject({ code: "source/resolver.escape" });
    await expect(output.peek(name)).rejects.toMatchObject({ code: "source/resolver.escape" });
  }
});
async function write(output: Output, name: string): Promise<void> {
  const sink = await output.create(name);
  try {
    await sink.append(new TextEncoder().encode(name));
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

test("a file does not replace another one of the same run where the file system takes their names for one", async () => {
  const { path } = makeFolder();
  const output = directoryOutput(path("."), "", { overwrite: "replace" });
  writeFileSync(path("before"), "old");
  await write(output, "a");
  // A second name of the same file, as a file system has it that ignores case or dots at the end.
  linkSync(path("a"), path("A"));
  await expect(write(output, "A")).rejects.toMatchObject({ code: "usage/vault.same-name" });
  // A name that was free when the file was begun, and is taken when it is complete.
  const late = await output.create("b");
  await write(output, "c");
  linkSync(path("c"), path("b"));
  await expect(late.commit()).rejects.toMatchObject({ code: "usage/vault.same-name" });
  expect([readFileSync(path("A"), "utf8"), readFileSync(path("b"), "utf8")]).toEqual(["a", "c"]);
  // What was there before the run, and the same name again.
  await write(output, "before");
  await write(output, "a");
  expect([readFileSync(path("before"), "utf8"), readFileSync(path("a"), "utf8")]).toEqual(["before", "a"]);
  expect(readdirSync(path(".")).sort()).toEqual(["A", "a", "b", "before", "c"]);
});
