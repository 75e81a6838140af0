import { mkdtempSync, promises, rmSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { portableEngine } from "../../primitives/portable.ts";
import { findModelIn } from "./folders.ts";
import { openTarget, parseTarget } from "./targets.ts";

let folder: string;
const { open } = promises;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-open-"));
});

afterEach(() => {
  Object.assign(promises, { open });
  syncBuiltinESMExports();
  rmSync(folder, { recursive: true });
});

/** A SafeTensors file with one tensor of this many bytes. */
function tensorFile(byteLength: number): Buffer {
  const head = JSON.stringify({ t: { dtype: "U8", shape: [byteLength], data_offsets: [0, byteLength] } });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(head.length));
  return Buffer.concat([length, Buffer.from(head), Buffer.alloc(byteLength)]);
}

/** Replaces the file with a longer one while it is being opened, after its length is known, this many times. */
function growWhileOpening(path: string, times: number): () => number {
  let opened = 0;
  Object.assign(promises, {
    open: async (...args: Parameters<typeof open>) => {
      const handle = await open(...args);
      if (args[0] !== path) return handle;
      opened++;
      const stat = handle.stat.bind(handle) as (options: { bigint: true }) => Promise<unknown>;
      Object.assign(handle, {
        stat: async (options: { bigint: true }) => {
          const facts = await stat(options);
          if (opened <= times) writeFileSync(path, tensorFile(1000 * (opened + 1)));
          return facts;
        },
      });
      return handle;
    },
  });
  syncBuiltinESMExports();
  return () => opened;
}

test("openTarget() starts again if a file is written to while it is opened", async () => {
  const path = join(folder, "m.safetensors");
  writeFileSync(path, tensorFile(1000));
  const opened = growWhileOpening(path, 2);
  const target = await openTarget(path, { engine: portableEngine() });
  expect([target.container.kind, opened()]).toEqual(["model", 3]);
  await target.close();
});

test("openTarget() gives up on a file that keeps changing, and at once on one that is damaged", async () => {
  const path = join(folder, "m.safetensors");
  writeFileSync(path, tensorFile(1000));
  const opened = growWhileOpening(path, 100);
  await expect(openTarget(path, { engine: portableEngine() })).rejects.toMatchObject({ name: "FormatError" });
  expect(opened()).toBe(4);
  Object.assign(promises, { open });
  syncBuiltinESMExports();
  const damaged = join(folder, "d.safetensors");
  writeFileSync(damaged, tensorFile(1000).subarray(0, 500));
  const once = growWhileOpening(damaged, 0);
  await expect(openTarget(damaged, { engine: portableEngine() })).rejects.toMatchObject({ name: "FormatError" });
  expect(once()).toBe(1);
});

describe("findModelIn()", () => {
  test("looks into the folder of exports if there is nothing else, and prefers the usual name", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tare-models-"));
    try {
      await mkdir(join(folder, "onnx"));
      await writeFile(join(folder, "config.json"), "{}");
      await expect(findModelIn(folder)).rejects.toMatchObject({ code: "source/no-model" });
      await writeFile(join(folder, "onnx", "model_quantized.onnx"), "");
      expect(await findModelIn(folder)).toBe(join(folder, "onnx", "model_quantized.onnx"));
      await writeFile(join(folder, "onnx", "model_fp16.onnx"), "");
      await expect(findModelIn(folder)).rejects.toMatchObject({ code: "usage/ambiguous-target" });
      await writeFile(join(folder, "onnx", "model.onnx"), "");
      expect(await findModelIn(folder)).toBe(join(folder, "onnx", "model.onnx"));
      await writeFile(join(folder, "m.weights"), "");
      expect(await findModelIn(folder)).toBe(join(folder, "m.weights"));
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

test.each([
  ["model.gguf", { outer: "model.gguf", kind: "path", inner: [] }],
  ["-", { outer: "-", kind: "stdin", inner: [] }],
  ["https://host/m.gguf?x=1", { outer: "https://host/m.gguf?x=1", kind: "http", inner: [] }],
  ["v.aerovault::models/a.gguf", { outer: "v.aerovault", kind: "path", inner: ["models/a.gguf"] }],
  ["http://[::1]:8080/v.aerovault::a::b", { outer: "http://[::1]:8080/v.aerovault", kind: "http", inner: ["a", "b"] }],
  ["s3://bucket/key", { outer: "s3://bucket/key", kind: "s3", inner: [] }],
  ["ftp://host/key", { outer: "ftp://host/key", kind: "other-scheme", inner: [] }],
  ["c:/models/x.gguf", { outer: "c:/models/x.gguf", kind: "path", inner: [] }],
])("parseTarget(%s) tells place and inner path apart", (text, expected) => {
  expect(parseTarget(text)).toEqual(expected);
});
