import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { crc32Javascript } from "../../src/primitives/digest/crc32.ts";
import { buildApr } from "../builders/apr.ts";
import { buildGguf, byteTensor, u16 } from "../builders/gguf.ts";
import { folder, holds, noise, pullInto, serve } from "./pull-into.ts";

/** What lies in a folder beside the receipt. */
const names = (directory: string): string[] => readdirSync(directory).filter((name) => name !== ".tare-pull.json");

const MANIFEST = "m.apr.manifest.json";
const crcOf = (bytes: Bytes): number => crc32Javascript(bytes, 0);
const hexOf = (crc: number): string => crc.toString(16).padStart(8, "0");
/** As tare's own manifests have it. */
const beforeFooter = (bytes: Bytes): string => hexOf(crcOf(bytes.subarray(0, -16)));

/** A manifest that states of each shard what `crc32` says. */
function manifestOf(shards: Readonly<Record<string, Bytes>>, crc32: (bytes: Bytes) => unknown): Bytes {
  const listed = Object.entries(shards).map(([file, bytes]) => {
    return { file, size: bytes.byteLength, crc32: crc32(bytes) };
  });
  const map = Object.fromEntries(listed.map(({ file }, i) => [`t-${file}`, i]));
  const count = listed.length;
  const root = { apr_version: "2.0.0", sharded: true, shard_count: count, shards: listed, tensor_shard_map: map };
  return new TextEncoder().encode(JSON.stringify(root));
}

const aprShard = (name: string, seed: number): Bytes =>
  buildApr({ flags: 0x0a, tensors: [{ name: `t-${name}`, data: noise(3000, seed) }] });
const APR_SHARDS = { "m-1.apr": aprShard("m-1.apr", 1), "m-2.apr": aprShard("m-2.apr", 2) };

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
    const manifest = manifestOf(shards, () => undefined);
    const server = await serve({ ...shards, [MANIFEST]: manifest });
    const to = folder();
    const { format, files } = await pullInto(to, { url: `${server.url}${MANIFEST}` });
    expect(format).toBe("apr");
    expect(files.map(({ verified }) => verified)).toEqual(["none", "none", "none"]);
    expect(names(to).sort()).toEqual(["m-1.apr", "m-2.apr", MANIFEST]);
    expect(holds(to, "m-1.apr", noise(300_000, 8))).toBe(true);
    const short = await serve({ ...shards, "m-2.apr": noise(9, 9), [MANIFEST]: manifest });
    const other = folder();
    const pulled = pullInto(other, { url: `${short.url}${MANIFEST}` });
    await expect(pulled).rejects.toMatchObject({ code: "integrity/pull.size" });
    expect(names(other)).not.toContain(MANIFEST);
  });

  it.each<[string, (bytes: Bytes) => unknown]>([
    ["the bytes before the footer", beforeFooter],
    ["the whole file", (bytes) => crcOf(bytes)],
  ])("compares shards with the CRC-32 that the manifest states of %s", async (_, crc32) => {
    const server = await serve({ ...APR_SHARDS, [MANIFEST]: manifestOf(APR_SHARDS, crc32) });
    const to = folder();
    const url = `${server.url}${MANIFEST}`;
    const { files } = await pullInto(to, { url });
    expect(files.map(({ verified }) => verified)).toEqual(["crc32", "crc32", "none"]);
    const again = await pullInto(to, { url });
    expect(again.files).toMatchObject([
      { path: "m-1.apr", fetchedBytes: 0, verified: "crc32" },
      { path: "m-2.apr", fetchedBytes: 0, verified: "crc32" },
      { path: MANIFEST, fetchedBytes: 0 },
    ]);
  });

  it("refuses a shard of another model, and takes it from the mirror that has the right one", async () => {
    const manifest = manifestOf(APR_SHARDS, beforeFooter);
    const stranger = aprShard("m-2.apr", 3);
    const server = await serve({ ...APR_SHARDS, "m-2.apr": stranger, [MANIFEST]: manifest });
    const to = folder();
    const url = `${server.url}${MANIFEST}`;
    await expect(pullInto(to, { url })).rejects.toMatchObject({
      code: "integrity/pull.crc32",
      message: expect.stringContaining(beforeFooter(APR_SHARDS["m-2.apr"])),
    });
    expect(names(to).filter((name) => name !== "m-1.apr")).toEqual([]);
    const mirror = await serve({ ...APR_SHARDS, [MANIFEST]: manifest });
    const { files } = await pullInto(to, { url, mirrors: [mirror.url] });
    expect(files.map(({ verified }) => verified)).toEqual(["crc32", "crc32", "none"]);
    expect(holds(to, "m-2.apr", APR_SHARDS["m-2.apr"])).toBe(true);
  });

  it("compares a shard that is here with what the manifest says of it now", async () => {
    const server = await serve({ ...APR_SHARDS, [MANIFEST]: manifestOf(APR_SHARDS, () => undefined) });
    const to = folder();
    await pullInto(to, { url: `${server.url}${MANIFEST}` });
    const other = { ...APR_SHARDS, "m-2.apr": aprShard("m-2.apr", 3) };
    server.setFile(MANIFEST, manifestOf(other, beforeFooter));
    const pulled = pullInto(to, { url: `${server.url}${MANIFEST}` });
    await expect(pulled).rejects.toMatchObject({ code: "integrity/pull.crc32" });
  });

  it("refuses a manifest that says two things of one shard", async () => {
    const shard = APR_SHARDS["m-1.apr"];
    const row = { file: "m-1.apr", size: shard.byteLength };
    const listed = [
      { ...row, crc32: "00000000" },
      { ...row, crc32: beforeFooter(shard) },
    ];
    const map = { "t-m-1.apr": 0 };
    const manifest = { apr_version: "2.0.0", sharded: true, shard_count: 2, shards: listed, tensor_shard_map: map };
    const bytes = new TextEncoder().encode(JSON.stringify(manifest));
    const server = await serve({ "m-1.apr": shard, [MANIFEST]: bytes });
    const pulled = pullInto(folder(), { url: `${server.url}${MANIFEST}` });
    await expect(pulled).rejects.toMatchObject({ code: "usage/pull.collision" });
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
