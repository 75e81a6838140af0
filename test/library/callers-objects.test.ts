import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { beforeAll, describe, expect, test } from "vitest";
import type { Folder } from "../../src/api/outputs.ts";
import { foreignSource } from "../../src/bytes/layers/foreign.ts";
import type { Sink } from "../../src/bytes/sink.ts";
import type { Source } from "../../src/bytes/source.ts";
import { convert, createModel, extract, inspect, memory } from "../../src/platform/node/index.ts";
import { createVault } from "../../src/platform/node/vault/library.ts";
import { MemoryDirectory } from "../support/library.ts";

const cause = new Error("no more room");
let bytes: Uint8Array<ArrayBuffer>;
const fails = async (): Promise<never> => {
  throw cause;
};
const sink = (more: Partial<Sink>): Sink => ({
  label: "mine",
  position: 0,
  append: async () => undefined,
  commit: async () => undefined,
  abort: async () => undefined,
  ...more,
});
const source = (more: Partial<Source>): Source => ({
  label: "mine",
  byteLength: bytes.byteLength,
  read: async (offset, byteLength) => bytes.slice(offset, offset + byteLength),
  async *stream(offset, { byteLength = bytes.byteLength - offset } = {}) {
    yield bytes.slice(offset, offset + byteLength);
  },
  close: async () => undefined,
  ...more,
});

beforeAll(async () => {
  const out = memory();
  const model = createModel([{ name: "w", dtype: "F32", shape: [4, 65536], data: new Float32Array(262144) }]);
  await convert(model, out, { to: "safetensors" });
  bytes = out.bytes;
});

const gguf = { to: "gguf", allowLossy: true } as const;

const failing: Readonly<Record<string, readonly [string, () => Promise<unknown>]>> = {
  "a Sink's append": ["source/caller", () => convert(bytes, sink({ append: fails }), gguf)],
  "a Sink's commit": ["source/caller", () => convert(bytes, sink({ commit: fails }), gguf)],
  "a Sink's append and its abort": ["source/caller", () => convert(bytes, sink({ append: fails, abort: fails }), gguf)],
  "a folder's create": ["source/caller", () => extract(bytes, { label: "mine", name: "", create: fails })],
  "a folder's peek": [
    "source/caller",
    () => extract(bytes, { label: "mine", name: "", create: async () => sink({}), peek: fails }),
  ],
  "a Source's read": ["source/caller", () => inspect(source({ read: fails }))],
  "a Source's stream": [
    "source/caller",
    async () => {
      const failing = source({ stream: () => ({ [Symbol.asyncIterator]: () => ({ next: fails }) }) });
      for await (const piece of foreignSource(failing).stream(0)) expect.fail(String(piece));
    },
  ],
  "a stream": ["source/stream", () => convert(bytes, new WritableStream({ write: fails }), gguf)],
  "the names of a folder": [
    "source/io",
    () =>
      inspect(
        Object.assign(new MemoryDirectory(), { keys: () => ({ [Symbol.asyncIterator]: () => ({ next: fails }) }) }),
      ),
  ],
};

test.each(Object.entries(failing))("%s that fails is an error of ours, with its cause", async (_what, [code, call]) => {
  const error = (await call().catch((thrown: unknown) => thrown)) as Error & { readonly code?: string };
  expect(error.code).toBe(code);
  expect(error.cause).toBe(cause);
});

test("what cannot be closed has been read all the same", async () => {
  expect((await inspect(source({ close: fails }))).format).toBe("safetensors");
});

test("a password function that fails is an error of ours", async () => {
  const path = join(tmpdir(), `tare-callers-${process.pid}.aerovault`);
  await expect(createVault(path, { password: fails })).rejects.toMatchObject({ code: "source/caller", cause });
});

test("a Sink need not count: what is written is checked without it", async () => {
  let taken = 0;
  const append = async (piece: Uint8Array): Promise<void> => {
    taken += piece.byteLength;
  };
  const { byteLength } = await convert(bytes, sink({ append }), gguf);
  expect(taken).toBe(byteLength);
});

describe("an object of a caller without types, that has no label,", () => {
  const unlabelled = { label: undefined as never };

  test("is a Source like others, and has a name in errors", async () => {
    expect((await inspect(source(unlabelled))).format).toBe("safetensors");
    const failing = inspect(source({ ...unlabelled, read: fails }));
    await expect(failing).rejects.toMatchObject({ code: "source/caller", at: { source: "source" } });
    const wrong = inspect(source({ ...unlabelled, byteLength: -1 }));
    await expect(wrong).rejects.toMatchObject({ code: "source/contract", at: { source: "source" } });
  });

  test("is a Sink like others", async () => {
    await convert(bytes, sink({ ...unlabelled, position: undefined as never }), gguf);
    const failing = convert(bytes, sink({ ...unlabelled, append: fails }), gguf);
    await expect(failing).rejects.toMatchObject({ code: "source/caller", at: { source: "sink" } });
  });

  test("is a folder like others", async () => {
    const folder = { create: async () => sink(unlabelled) } as unknown as Folder;
    expect((await extract(bytes, folder)).directory).toBe("folder");
    const failing = extract(bytes, { create: fails } as unknown as Folder);
    await expect(failing).rejects.toMatchObject({ code: "source/caller", at: { source: "folder" } });
  });
});

test("a result names a Sink by its label", async () => {
  const { files } = await convert(source({ label: "in.safetensors" }), sink({ label: "out/x.gguf" }), gguf);
  expect(files.map(({ path }) => path)).toEqual(["out/x.gguf"]);
});

test("a stream of Node as an output is refused with the way to pass it", async () => {
  const stream = new PassThrough();
  const refused = { code: "usage/output", hint: expect.stringContaining("Writable.toWeb(stream)") };
  await expect(convert(bytes, stream as never, gguf)).rejects.toMatchObject(refused);
  const pieces: Uint8Array[] = [];
  stream.on("data", (piece: Uint8Array) => pieces.push(piece));
  const { byteLength } = await convert(bytes, Writable.toWeb(stream) as WritableStream<Uint8Array>, gguf);
  expect(Buffer.concat(pieces).byteLength).toBe(byteLength);
});

test("hints for a wrong input or output name paths", async () => {
  const hint = expect.stringContaining("a path");
  await expect(inspect(7 as never)).rejects.toMatchObject({ code: "usage/input", hint });
  await expect(convert(bytes, 7 as never, gguf)).rejects.toMatchObject({ code: "usage/output", hint });
});

test.each([
  ["a ReadableStream", () => new ReadableStream({ pull: fails })],
  [
    "an async generator",
    async function* () {
      yield new Uint8Array(10);
      throw cause;
    },
  ],
])("%s that fails is an error of ours, for vault.write() as for inspect()", async (_, make) => {
  const failed = { code: "source/stream", cause };
  await expect(inspect(make() as ReadableStream<Uint8Array>)).rejects.toMatchObject(failed);
  const path = join(tmpdir(), `tare-callers-${process.pid}-stream.aerovault`);
  await using vault = await createVault(path, { encryption: false });
  try {
    await expect(vault.write("x", make() as ReadableStream<Uint8Array>)).rejects.toMatchObject(failed);
    expect(vault.entries).toEqual([]);
  } finally {
    rmSync(path);
  }
});
