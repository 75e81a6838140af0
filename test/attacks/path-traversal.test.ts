import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { encodeUtf8 } from "../../src/base/text.ts";
import { httpResolver } from "../../src/bytes/http/index.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { fileNamesFor } from "../../src/operations/reading/file-names.ts";
import { nodeEngine } from "../../src/platform/node/engine/engine.ts";
import { directoryOutput } from "../../src/platform/node/files/directory.ts";
import { openTarget } from "../../src/platform/node/targets.ts";
import { ggufPart, shard, shardIndex } from "../builders/crafted-files.ts";

/** What readers that join paths would open outside the folder, on one system or another. */
const ESCAPES = [
  "../secret.safetensors",
  "a/../../secret.safetensors",
  "/etc/passwd",
  "//server/share/x",
  "\\\\server\\share\\x",
  "..\\secret.safetensors",
  "C:\\secret",
  "C:secret",
  "file:///etc/passwd",
  "http://169.254.169.254/latest",
  "s.safetensors\u0000.png",
  "./s.safetensors",
  "a//s.safetensors",
  ".. /secret",
  "...",
  "",
  "NUL",
  "con.safetensors",
  "x\n",
];

let root: string;
let folder: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "tare-paths-"));
  folder = join(root, "model");
  await mkdir(folder);
  await writeFile(join(root, "secret.safetensors"), shard(0));
});
afterEach(() => rm(root, { recursive: true }));

const ESCAPE = { name: "SourceError", code: "source/resolver.escape" };

describe("names in files never lead out of their folder", () => {
  test.each(ESCAPES)("a shard index that names %j is refused with the place of the name", async (name) => {
    const path = join(folder, "model.safetensors.index.json");
    await writeFile(path, shardIndex([name]));
    const outcome = openTarget(path, { engine: await nodeEngine() });
    await expect(outcome).rejects.toMatchObject({ ...ESCAPE, at: { source: path, offset: expect.any(Number) } });
  });
  test("an index may name files below its folder", async () => {
    await mkdir(join(folder, "sub"));
    await writeFile(join(folder, "sub", "s.safetensors"), shard(0));
    const path = join(folder, "model.safetensors.index.json");
    await writeFile(path, shardIndex(["sub/s.safetensors"]));
    const opened = await openTarget(path, { engine: await nodeEngine() });
    expect(opened.container.parts).toHaveLength(2);
    await opened.close();
  });
  test("GGUF parts are looked for by the number in the file's own name only", async () => {
    // A part whose split.count disagrees with its name would make a naive reader build other names.
    const path = join(folder, "m-00001-of-00002.gguf");
    await writeFile(path, ggufPart(0, 3));
    const opened = await openTarget(path, { engine: await nodeEngine() });
    expect(opened.container.parts).toHaveLength(1);
    expect(opened.container.warnings.map(({ code }) => code)).toContain("format/gguf.lone-part");
    await opened.close();
  });
  test.each([...ESCAPES, "%2e%2e/x", "..%2fx", "a%5cb", "x%00"])("no URL is built from %j", async (name) => {
    const asked: string[] = [];
    const resolver = httpResolver("https://example.org/models/a/index.json?token=1", async (url) => {
      asked.push(url);
      return memorySource(new Uint8Array(1));
    });
    await expect(resolver.resolve(name)).rejects.toMatchObject(ESCAPE);
    expect(asked).toEqual([]);
  });
  test("names with marks of URLs stay names", async () => {
    const asked: string[] = [];
    const resolver = httpResolver("https://example.org/models/a/index.json", async (url) => {
      asked.push(url);
      return memorySource(new Uint8Array(1));
    });
    await resolver.resolve("s?x#y@evil.example.safetensors");
    expect(asked).toHaveLength(1);
    const url = new URL(asked[0] ?? "");
    expect(url.origin).toBe("https://example.org");
    expect(url.pathname.startsWith("/models/a/s%3Fx%23y")).toBe(true);
    expect(url.search + url.hash).toBe("");
  });
  test.each(ESCAPES)("nothing is written under the name %j", async (name) => {
    const output = directoryOutput(folder, "model.gguf", { overwrite: "replace" });
    await expect(output.create(name)).rejects.toMatchObject(ESCAPE);
    expect(await readdir(root)).toEqual(["model", "secret.safetensors"]);
    expect(await readdir(folder)).toEqual([]);
  });
  test("tensor names become file names of one folder, none like another", async () => {
    const names = [
      ...ESCAPES,
      "A",
      "a",
      "\u212b",
      "\u00c5",
      ".bashrc",
      "-rf",
      "x".repeat(500),
      "x".repeat(501),
      "\u202egnp.exe",
    ];
    const files = [...fileNamesFor(names, ".bin").values()];
    for (const file of files) {
      expect(file).toMatch(/^[\p{L}\p{N}_][\p{L}\p{N}._~-]*\.bin$/u);
      expect(encodeUtf8(file).byteLength).toBeLessThan(200);
    }
    expect(new Set(files.map((file) => file.toLowerCase())).size).toBe(new Set(names).size);
  });
});
