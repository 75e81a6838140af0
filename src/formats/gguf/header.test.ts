import { expect, test } from "vitest";
import { array, buildGguf, byteTensor, text } from "../../../test/builders/gguf.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Source } from "../../bytes/source.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { openGguf } from "./read.ts";

const context = { engine: portableEngine(), limits: {} };

/** A vocabulary as in real models. Built as one run of bytes, because 100 000 small arrays would be slow. */
function vocabulary(count: number): Bytes {
  const tokens = Array.from({ length: count }, (_, i) => `token ${i}`);
  const bytes = new Uint8Array(tokens.reduce((sum, token) => sum + 8 + token.length, 0));
  const view = new DataView(bytes.buffer);
  const encoder = new TextEncoder();
  let position = 0;
  for (const token of tokens) {
    view.setUint32(position, token.length, true);
    encoder.encodeInto(token, bytes.subarray(position + 8));
    position += 8 + token.length;
  }
  return array(8, [bytes], count);
}

const COUNT = 60_000;
const large = buildGguf({
  kvs: [
    { key: "general.architecture", type: 8, value: text("test") },
    { key: "tokens", type: 9, value: vocabulary(COUNT) },
    { key: "scores", type: 9, value: array(6, [new Uint8Array(4 * COUNT)], COUNT) },
  ],
  tensors: [byteTensor("w", 5 << 20, 0)],
  data: new Uint8Array(5 << 20),
});

/** Streams pieces of any length, and records how far the consumer went. */
function streamingSource(bytes: Bytes, pieceBytes: number): Source & { readonly streamed: () => number } {
  const inner = memorySource(bytes, "stream");
  let streamed = 0;
  return {
    label: inner.label,
    byteLength: inner.byteLength,
    read: (offset, byteLength, options) => inner.read(offset, byteLength, options),
    async *stream(offset) {
      const shared = new Uint8Array(pieceBytes);
      for (let position = offset; position < bytes.byteLength; position += pieceBytes) {
        const piece = shared.subarray(0, Math.min(pieceBytes, bytes.byteLength - position));
        piece.set(bytes.subarray(position, position + piece.byteLength));
        streamed += piece.byteLength;
        yield piece;
        shared.fill(0xee); // a piece is only valid until the next one is requested
      }
    },
    close: () => inner.close(),
    streamed: () => streamed,
  };
}

test("opening a long header takes the opening read and one stream", async () => {
  const source = countingSource(memorySource(large));
  const model = await openGguf(source, context);
  expect(source.calls).toEqual([
    { kind: "read", offset: 0, byteLength: 256 << 10 },
    { kind: "stream", offset: 256 << 10, byteLength: large.byteLength - (256 << 10) },
  ]);
  const headerEnd = model.files[0].header.headerEnd;
  expect(headerEnd).toBeGreaterThan(1 << 20);
  // The stream is left within one of its pieces of 1 MiB.
  expect(source.byteCount).toBeLessThan(headerEnd + (1 << 20));
});

test("opening a short header takes one read", async () => {
  const source = countingSource(memorySource(large.slice(0, 0)));
  expect(source.calls).toEqual([]);
  const small = countingSource(
    memorySource(buildGguf({ tensors: [byteTensor("w", 1 << 20, 0)], data: new Uint8Array(1 << 20) })),
  );
  await openGguf(small, context);
  expect(small.calls).toEqual([{ kind: "read", offset: 0, byteLength: 256 << 10 }]);
});

test.each([1000, 4093, 1 << 20])("a header that arrives in pieces of %i bytes reads the same", async (pieceBytes) => {
  const source = streamingSource(large, pieceBytes);
  const model = await openGguf(source, context);
  const tokens = model.metadata.get("tokens");
  if (tokens?.type !== "array") throw new Error("no tokens");
  expect(tokens.length).toBe(COUNT);
  expect(tokens.slice(COUNT - 1)).toEqual([{ type: "string", value: `token ${COUNT - 1}` }]);
  expect(tokens.slice(-2, -1)).toEqual([{ type: "string", value: `token ${COUNT - 2}` }]);
  expect(model.tensors.map(({ name }) => name)).toEqual(["w"]);
  expect(source.streamed()).toBeLessThan(model.files[0].header.headerEnd + pieceBytes);
});

test("values are views of the header, not copies, and are decoded on demand", async () => {
  const model = await openGguf(memorySource(large), context);
  const tokens = model.metadata.get("tokens");
  const scores = model.metadata.get("scores");
  expect(tokens?.encoded?.bytes.buffer).toBe(scores?.encoded?.bytes.buffer);
  expect(tokens?.encoded?.bytes.byteLength).toBe(4 + vocabulary(COUNT).byteLength);
});

test("a count that the file cannot hold is refused after one read", async () => {
  const claims = buildGguf({ kvs: [{ key: "a", type: 9, value: array(8, [], 2 ** 45) }] });
  const source = countingSource(memorySource(concatBytes([claims, new Uint8Array(1 << 20)])));
  await expect(openGguf(source, context)).rejects.toMatchObject({ code: "format/gguf.header-bounds" });
  expect(source.calls).toHaveLength(1);
});

test("a signal stops the stream", async () => {
  const controller = new AbortController();
  controller.abort(new Error("enough"));
  await expect(openGguf(memorySource(large), { ...context, signal: controller.signal })).rejects.toThrow("enough");
});
