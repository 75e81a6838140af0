import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { buildGguf, byteTensor, u16 } from "../builders/gguf.ts";
import { folder, holds, noise, pullInto, serve } from "./pull-into.ts";

/** What lies in a folder beside the receipt. */
const names = (directory: string): string[] => readdirSync(directory).filter((name) => name !== ".tare-pull.json");

describe("pull() of shards", () => {
  it("brings the shards of a SafeTensors index", async () => {
    const index = new TextEncoder().encode(
      JSON.stringify({
        metadata: {},
        weight_map: { a: "m-00001-of-00002.safetensors", b: "m-00002-of-00002.safetensors" },
      }),
    );
    const shards = { "m-00001-of-00002.safetensors": noise(300_000, 8), "m-00002-of-00002.safetensors": noise(10, 9) };
    const server = await serve({ ...shards, "m.safetensors.index.json": index });
    const to = folder();
    await pullInto(to, { url: `${server.url}m.safetensors.index.json` });
    expect(names(to).sort()).toEqual([...Object.keys(shards), "m.safetensors.index.json"]);
    expect(holds(to, "m-00001-of-00002.safetensors", noise(300_000, 8))).toBe(true);
    const again = await pullInto(to, { url: `${server.url}m.safetensors.index.json` });
    expect(again.files.every(({ fetchedBytes }) => fetchedBytes === 0)).toBe(true);
  });

  it("brings the shards of an APR manifest, and refuses a shard of another length", async () => {
    const shards = { "m-1.apr": noise(300_000, 8), "m-2.apr": noise(10, 9) };
    const listed = Object.entries(shards).map(([file, bytes]) => ({ file, size: bytes.byteLength, crc32: "00000000" }));
    const manifest = { apr_version: "2.0.0", sharded: true, shard_count: 2, shards: listed, tensor_shard_map: {} };
    const url = "m.apr.manifest.json";
    const server = await serve({ ...shards, [url]: new TextEncoder().encode(JSON.stringify(manifest)) });
    const to = folder();
    const { format } = await pullInto(to, { url: `${server.url}${url}` });
    expect(format).toBe("apr");
    expect(names(to).sort()).toEqual(["m-1.apr", "m-2.apr", url]);
    expect(holds(to, "m-1.apr", noise(300_000, 8))).toBe(true);
    const short = await serve({
      ...shards,
      "m-2.apr": noise(9, 9),
      [url]: new TextEncoder().encode(JSON.stringify(manifest)),
    });
    const other = folder();
    await expect(pullInto(other, { url: `${short.url}${url}` })).rejects.toMatchObject({ code: "integrity/pull.size" });
    expect(names(other)).not.toContain(url);
  });

  it("refuses an index that names itself, or another index, as its shard", async () => {
    const url = "m.safetensors.index.json";
    for (const name of [url, "n.safetensors.index.json"]) {
      const index = new TextEncoder().encode(JSON.stringify({ weight_map: { a: name } }));
      const server = await serve({ [url]: index, [name]: index });
      const to = folder();
      const pulled = pullInto(to, { url: `${server.url}${url}` });
      await expect(pulled).rejects.toMatchObject({ code: "format/safetensors.index" });
      expect(names(to)).toEqual([]);
    }
    const listed = [{ file: "m.apr", size: 9, crc32: "00000000" }];
    const manifest = { apr_version: "2.0.0", sharded: true, shard_count: 1, shards: listed, tensor_shard_map: {} };
    const server = await serve({ "m.apr": new TextEncoder().encode(JSON.stringify(manifest)) });
    const pulled = pullInto(folder(), { url: `${server.url}m.apr` });
    await expect(pulled).rejects.toMatchObject({ code: "source/pull.name" });
  });

  it("writes nothing where an index names what is no part of a model", async () => {
    const code = "venv/lib/python3.11/site-packages/zz.pth";
    for (const name of [
      ".bash_profile",
      "sitecustomize.py",
      code,
      "zz.pth",
      "A.safetensors",
      "a.safetensors.tare-part",
    ]) {
      const weights = { "a.safetensors": noise(100, 1), [name]: noise(100, 2) };
      const map = Object.fromEntries(Object.keys(weights).map((file, i) => [`t${i}`, file]));
      const index = new TextEncoder().encode(JSON.stringify({ metadata: {}, weight_map: map }));
      const server = await serve({ ...weights, "m.safetensors.index.json": index });
      const to = folder();
      await expect(pullInto(to, { url: `${server.url}m.safetensors.index.json` })).rejects.toMatchObject({
        code: expect.stringMatching(/^(source|usage)\/pull\.(name|collision)$/),
      });
      expect(names(to)).toEqual([]);
    }
  });

  it("brings every part of a split GGUF", async () => {
    const part = (no: number): Bytes => {
      const key = (name: string, value: number) => ({ key: name, type: 2, value: u16(value) });
      const kvs = [key("split.no", no), key("split.count", 2), key("split.tensors.count", 2)];
      return buildGguf({ kvs, tensors: [byteTensor(`t${no}`, 32, 0)], data: noise(32, no) });
    };
    const files = { "m-00001-of-00002.gguf": part(0), "m-00002-of-00002.gguf": part(1) };
    const server = await serve(files);
    const to = folder();
    await pullInto(to, { url: `${server.url}m-00001-of-00002.gguf` });
    expect(names(to).sort()).toEqual(Object.keys(files));
    const alone = folder();
    await pullInto(alone, { url: `${server.url}m-00002-of-00002.gguf` });
    expect(names(alone)).toEqual(["m-00002-of-00002.gguf"]);
  });
});
