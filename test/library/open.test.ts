import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as bytes from "../../src/bytes/index.ts";
import { format as aerovaultFormat, open as openAerovault } from "../../src/formats/aerovault/library.ts";
import { format as ggufFormat, open as openGguf } from "../../src/formats/gguf/library.ts";
import { open as openSafetensors, format as safetensorsFormat } from "../../src/formats/safetensors/library.ts";
import * as portable from "../../src/index.ts";
import * as node from "../../src/platform/node/index.ts";
import { craftVault, VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { craftVault1 } from "../builders/vault1.ts";
import { callTare } from "../cli/run-tare.ts";
import { smallGguf, smallSafetensors } from "../cli/small-models.ts";
import { startRangeServer } from "../support/range-server.ts";

let folder: string;
const at = (name: string): string => join(folder, name);
const { convert, createLoader, createModel, memory, prefetch, streamTensors } = portable;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-open-"));
  writeFileSync(at("m.safetensors"), smallSafetensors());
  writeFileSync(at("m.gguf"), smallGguf());
  writeFileSync(at("v.aerovault"), await craftVault1([{ path: "a/m.gguf", bytes: smallGguf() }]));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("open() and openModel()", () => {
  test("open a model from a path, an address, a handle, a stream, bytes, and a model that is open", async () => {
    const file = readFileSync(at("m.gguf"));
    const server = await startRangeServer(file, "/m.gguf");
    const handle = { kind: "file", name: "m.gguf", getFile: async () => new Blob([file]) } as const;
    try {
      const earlier = await node.openModel(at("m.gguf"));
      expect(await node.openModel(earlier)).toBe(earlier);
      await earlier.close();
      for (const input of [new URL(server.url), server.url, handle, new Blob([file]).stream(), new Uint8Array(file)]) {
        await using model = await portable.openModel(input);
        expect(model.format).toBe("gguf");
        expect((await model.tensors[0]?.bytes())?.byteLength).toBeGreaterThan(0);
      }
    } finally {
      await server.close();
    }
  });

  test("the entry without Node refuses the native engine", async () => {
    const refused = portable.openModel(new Uint8Array(smallGguf()), { engine: "native" });
    await expect(refused).rejects.toMatchObject({ code: "unsupported/engine.native" });
  });

  test("a vault is not a model; open takes both, with the password of every kind", async () => {
    const password = VAULT_PASSWORD;
    await expect(node.openModel(at("v.aerovault"), { password })).rejects.toMatchObject({ code: "usage/not-a-model" });
    await using vault = await node.open(at("v.aerovault"), { password: async () => password });
    expect(vault.kind).toBe("archive");
    await using inner = await node.openModel(`${at("v.aerovault")}::a/m.gguf`, { password });
    expect(inner.format).toBe("gguf");
  });

  test("a path is no address, and the hint says where paths open", async () => {
    for (const open of [portable.open, portable.openModel]) {
      await expect(open("m.gguf")).rejects.toMatchObject({
        code: "usage/not-a-url",
        hint: expect.stringContaining("tare/node") as string,
      });
    }
  });

  test("closing what was opened closes its source, and may be done twice", async () => {
    const model = await node.openModel(at("m.gguf"));
    await model.close();
    await model[Symbol.asyncDispose]();
    await expect(model.tensors[0]?.bytes()).rejects.toMatchObject({ code: "source/closed" });
  });

  test.each([
    [{ frobnicate: 1 }, "usage/unknown-option"],
    [{ timeout: "soon" }, "usage/option-value"],
    [{ limits: 7 }, "usage/option-value"],
  ])("refuse %j before anything is opened", async (options, code) => {
    for (const open of [portable.open, node.open, portable.openModel, node.openModel, openGguf])
      await expect(open("missing", options as object)).rejects.toMatchObject({ code });
  });

  test("s3:// without a file system: the option s3 is all there is", async () => {
    const s3 = { endpoint: "not a url", region: "us-east-1" };
    for (const given of [s3, { region: "../" }, { accessKeyId: "only half" }])
      await expect(portable.openModel("s3://bucket/m.gguf", { s3: given })).rejects.toMatchObject({
        code: "usage/s3.settings",
      });
    await expect(portable.openModel("s3://bucket/", {})).rejects.toMatchObject({ code: "usage/s3.address" });
  });
});

describe("metadata.toJSON()", () => {
  test("is what inspect prints, with every array whole", async () => {
    const list = Array.from({ length: 100 }, (_, i) => i);
    const model = createModel([], {
      metadata: { list, deep: { a: [true, null, "x"], big: 2n ** 60n }, nan: Number.NaN },
    });
    expect(model.metadata.toJSON()).toEqual({
      list,
      deep: { a: [true, null, "x"], big: String(2n ** 60n) },
      nan: "NaN",
    });
    expect(JSON.parse(JSON.stringify(model.metadata))).toEqual(model.metadata.toJSON());
    await using opened = await node.openModel(at("m.gguf"));
    const run = await callTare(["inspect", at("m.gguf"), "--json"]);
    expect(JSON.parse(JSON.stringify(opened.metadata))).toEqual(JSON.parse(run.out).metadata);
  });
});

describe("createModel()", () => {
  const data = new Float32Array([1, 2, 3, 4, 5, 6]);

  test("gives a model that convert takes: arrays, Blobs and Sources come back", async () => {
    const bits = new Uint8Array(data.buffer);
    const model = createModel(
      [
        { name: "w", dtype: "F32", shape: [2, 3], data },
        { name: "b", dtype: "F32", shape: [6], data: new Blob([bits]) },
        { name: "s", dtype: "F32", shape: [], data: bytes.memorySource(bits.slice(4, 8)) },
      ],
      { metadata: { license: "MIT" } },
    );
    for (const to of ["safetensors", "gguf", "aero"]) {
      const out = memory();
      await convert(model, out, { to });
      await using back = await portable.openModel(out.bytes);
      expect([...(await back.tensor("w").rows(1).toFloat32())]).toEqual([4, 5, 6]);
      expect([...(await back.tensor("b").toFloat32())]).toEqual([...data]);
      expect(back.metadata.toJSON()).toMatchObject({ license: "MIT" });
    }
    expect([...(await model.tensor("s").toFloat32())]).toEqual([2]);
    expect(() => model.tensor("W")).toThrow(expect.objectContaining({ code: "usage/tensor-not-found" }) as Error);
  });

  const tensor = { name: "w", dtype: "F32", shape: [2, 3], data };
  test.each([
    ["a wrong length", [{ ...tensor, shape: [7] }]],
    ["no such type", [{ ...tensor, dtype: "F33" }]],
    ["a type whose size no shape says", [{ ...tensor, dtype: "PACKED" }]],
    ["a half block", [{ ...tensor, dtype: "Q8_0", shape: [33] }]],
    ["a name given twice", [tensor, tensor]],
    ["a negative dimension", [{ ...tensor, shape: [-6] }]],
    ["dimensions beyond all numbers", [{ ...tensor, shape: [2 ** 40, 2 ** 40] }]],
    ["a name that is no well-formed text", [{ ...tensor, name: "w\ud800" }]],
    ["no name", [{ ...tensor, name: "" }]],
    ["no data", [{ ...tensor, data: undefined }]],
    ["no object", [null]],
    ["no list", {}],
  ])("refuses %s", (_what, tensors) => {
    if (_what === "no such type") {
      const hint = expect.stringMatching(/^Did you mean "F32"\? The types are F32, \w+, /);
      expect(() => createModel([{ ...tensor, dtype: "F33" }] as never)).toThrow(
        expect.objectContaining({ hint }) as Error,
      );
    }
    expect(() => createModel(tensors as never)).toThrow(expect.objectContaining({ code: "usage/tensor" }) as Error);
  });

  test("refuses metadata that no file can hold", () => {
    const loop: Record<string, unknown> = {};
    loop["loop"] = loop;
    const lone = "\ud800";
    const halves = [{ [lone]: 1 }, { a: lone }, { a: ["b", lone] }, { a: { [lone]: 1 } }];
    for (const metadata of [{ f: () => 1 }, { d: new Date() }, { n: 2n ** 70n }, loop, ...halves])
      expect(() => createModel([], { metadata })).toThrow(expect.objectContaining({ code: "usage/metadata" }) as Error);
    expect(() => createModel([], { metadate: {} } as object)).toThrow(
      expect.objectContaining({ code: "usage/unknown-option" }) as Error,
    );
  });

  test("does not let metadata touch prototypes", () => {
    const model = createModel([], {
      metadata: JSON.parse('{"__proto__": {"polluted": 1}}') as Record<string, unknown>,
    });
    expect(Object.keys(model.metadata.toJSON())).toEqual(["__proto__"]);
    expect((model.metadata.toJSON() as { polluted?: number }).polluted).toBeUndefined();
  });
});

describe("memory()", () => {
  test("refuses more than its bound, of all files together, and then holds nothing of them", async () => {
    const model = createModel([{ name: "w", dtype: "U8", shape: [20_000], data: new Uint8Array(20_000) }]);
    const out = memory({ maxBytes: "10kB" });
    await expect(convert(model, out, { to: "safetensors" })).rejects.toMatchObject({ code: "limit/memory" });
    expect(out.files.size).toBe(0);
    const small = createModel([{ name: "w", dtype: "U8", shape: [9], data: new Uint8Array(9) }]);
    await convert(small, out, { to: "safetensors" });
    expect(out.files.size).toBe(1);
  });

  test("bytes are those of the one file", async () => {
    const out = memory();
    expect(() => out.bytes).toThrow(expect.objectContaining({ code: "usage/memory.files" }) as Error);
    expect(() => memory({ maxBytes: "many" } as object)).toThrow(
      expect.objectContaining({ code: "usage/option-value" }) as Error,
    );
  });
});

describe("reading", () => {
  test("createLoader, prefetch and streamTensors check their options and read", async () => {
    const open = (): Promise<portable.Model> => node.openModel(at("m.gguf"));
    for (const call of [
      () => createLoader(open, { maxByte: 1 } as object),
      () => streamTensors(createModel([]), { order: "all" } as object),
    ])
      expect(call).toThrow(expect.objectContaining({ code: expect.stringMatching(/^usage\//) as string }) as Error);
    const loader = createLoader(open, { maxBytes: "1MiB" });
    const [first] = await loader.loadIndex();
    expect((await loader.loadTensor(first?.name ?? "")).byteLength).toBe(first?.byteLength);
    await loader[Symbol.asyncDispose]();
    await using model = await open();
    const ready = await prefetch(model, [first?.name ?? ""], { maxBytes: "1MiB" });
    expect(ready.size).toBe(1);
    await expect(prefetch(model, [], { signal: AbortSignal.abort(new Error("no")) })).rejects.toThrow("no");
    let read = 0;
    for await (const piece of streamTensors(model)) read += piece.bytes.byteLength;
    expect(read).toBe(model.tensors.reduce((sum, { byteLength }) => sum + byteLength, 0));
  });

  test("formats are what doctor lists", async () => {
    const run = await callTare(["doctor", "--json"]);
    expect(JSON.parse(run.out).formats).toEqual(portable.formats);
  });
});

describe("tare/formats/<id>", () => {
  test("opens its own format, and no other", async () => {
    await using model = await openGguf(new Blob([smallGguf()]));
    expect([model.format, ggufFormat.id, safetensorsFormat.id]).toEqual(["gguf", "gguf", "safetensors"]);
    await using other = await openSafetensors(new Blob([smallSafetensors()]));
    expect((await other.tensors[0]?.bytes())?.byteLength).toBe(other.tensors[0]?.byteLength);
    await expect(openGguf(new Blob([smallSafetensors()]))).rejects.toMatchObject({ name: "UnsupportedError" });
    await expect(openGguf("m.gguf")).rejects.toMatchObject({ code: "usage/not-a-url" });
    const only = portable.openModel(new Blob([smallSafetensors()]), { formats: [ggufFormat] });
    await expect(only).rejects.toMatchObject({ name: "UnsupportedError" });
  });

  test("finds the shards beside an index in a picked folder", async () => {
    const shard = (name: string) => buildSafetensors([{ name, dtype: "U8", shape: [2], bytes: Uint8Array.of(1, 2) }]);
    const index = JSON.stringify({
      metadata: {},
      weight_map: { a: "m-00001-of-00002.safetensors", b: "m-00002-of-00002.safetensors" },
    });
    const handle = (name: string, content: BlobPart) => ({
      kind: "file" as const,
      name,
      getFile: async () => new File([content], name),
    });
    const files = new Map([
      ["m.safetensors.index.json", handle("m.safetensors.index.json", index)],
      ["m-00001-of-00002.safetensors", handle("m-00001-of-00002.safetensors", shard("a"))],
      ["m-00002-of-00002.safetensors", handle("m-00002-of-00002.safetensors", shard("b"))],
    ]);
    const picked = {
      kind: "directory" as const,
      name: "picked",
      getFileHandle: async (name: string) => files.get(name) ?? Promise.reject(new DOMException("no", "NotFoundError")),
      getDirectoryHandle: () => Promise.reject(new DOMException("no", "NotFoundError")),
      async *keys() {
        yield* files.keys();
      },
      removeEntry: async () => undefined,
    };
    await using model = await openSafetensors(picked);
    expect(model.tensors.map(({ name }) => name).sort()).toEqual(["a", "b"]);
  });

  test("a vault's open gives a vault", async () => {
    const plain = await craftVault([{ path: "a/m.gguf", chunks: [smallGguf()] }], { lane: "plain" });
    await using vault = await openAerovault(new Blob([plain]));
    expect([vault.kind, vault.entries.at(-1)?.path, aerovaultFormat.id]).toEqual(["archive", "a/m.gguf", "aerovault"]);
    await expect(openAerovault(new Blob([smallGguf()]))).rejects.toMatchObject({ name: "UnsupportedError" });
  });
});

describe("tare/bytes", () => {
  test("sources are closed by await using", async () => {
    const server = await startRangeServer(smallGguf(), "/m.gguf");
    try {
      const makers = [
        () => bytes.memorySource(smallGguf()),
        () => bytes.blobSource(new Blob([smallGguf()])),
        () => bytes.httpSource(server.url),
        () => bytes.withCache(bytes.withRetries(bytes.blobSource(new Blob([smallGguf()])))),
      ];
      for (const make of makers) {
        const source = await make();
        expect(await source.read(0, 4)).toEqual(smallGguf().slice(0, 4));
        await source[Symbol.asyncDispose]();
        await expect(source.read(0, 4)).rejects.toMatchObject({ code: "source/closed" });
      }
      await using model = await portable.openModel(await bytes.httpSource(new URL(server.url)));
      expect(model.format).toBe("gguf");
    } finally {
      await server.close();
    }
  });
});
