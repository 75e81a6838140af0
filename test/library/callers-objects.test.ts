import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
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
