import { expect, it } from "vitest";
import { buildAero, smallAero, tidx, wtsh } from "../../../../test/builders/aero.ts";
import { concatBytes } from "../../../base/bytes.ts";
import { DelegatingSource } from "../../../bytes/layers/base.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { Bytes, Source } from "../../../index.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { openAero } from "../read.ts";

/** Counts the bytes that are read, and has no descriptor, like a download. */
class Download extends DelegatingSource {
  readBytes = 0;

  override get descriptor(): undefined {
    return undefined;
  }

  override async read(offset: number, byteLength: number): Promise<Bytes> {
    this.readBytes += byteLength;
    return this.inner.read(offset, byteLength);
  }

  override async *stream(offset: number, options: Parameters<Source["stream"]>[1] = {}): AsyncGenerator<Bytes> {
    for await (const piece of this.inner.stream(offset, options)) {
      this.readBytes += piece.byteLength;
      yield piece;
    }
  }
}

/** Two tensors of 400,000 bytes with padding after the first and after the last, in one shard. */
const LENGTH = 400_000;

function model(padding: number, damage?: number): Bytes {
  const [a, b] = [1, 2].map((seed) => Uint8Array.from({ length: LENGTH }, (_, i) => (i * seed) & 0xff));
  const gap = new Uint8Array(48).fill(padding);
  const content = concatBytes([a as Bytes, gap, b as Bytes, gap]);
  const at = { shape: [LENGTH / 4], len: LENGTH };
  const index = tidx([
    { name: "a", ...at },
    { name: "b", off: LENGTH + 48, ...at },
  ]);
  const bytes = buildAero({ chunks: [...smallAero().slice(0, 2), index, wtsh(content)] });
  if (damage !== undefined) {
    const place = bytes.byteLength - content.byteLength + damage;
    bytes[place] = (bytes[place] ?? 0) ^ 1;
  }
  return bytes;
}

async function read(
  bytes: Bytes,
  order: readonly string[],
): Promise<{ download: Download; prove: () => Promise<void> }> {
  const download = new Download(memorySource(bytes, "m.aero"));
  const opened = await openAero(download, { engine: portableEngine(), limits: {} });
  download.readBytes = 0;
  for (const name of order) for await (const _ of opened.tensor(name).source().stream(0));
  return { download, prove: () => opened.prove() };
}

it("hashes a download as it arrives, and reads nothing again", async () => {
  const { download, prove } = await read(model(0), ["a", "b"]);
  await prove();
  expect(download.readBytes).toBe(2 * LENGTH);
});

it.each([
  ["the first tensor", 100],
  ["the last byte of the second tensor", 2 * LENGTH + 47],
])("finds damage in %s", async (_, damage) => {
  for (const order of [
    ["a", "b"],
    ["b", "a"],
    ["a", "a", "b"],
  ]) {
    const { prove } = await read(model(0, damage), order);
    await expect(prove()).rejects.toMatchObject({ code: "integrity/aero.chunk-hash" });
  }
});

it("accepts a sound shard in any order of reading, with any padding", async () => {
  for (const padding of [0, 7]) {
    for (const order of [["b", "a"], ["b"], ["a", "a", "b"], ["a"]]) {
      const { prove } = await read(model(padding), order);
      await prove();
      await prove();
    }
  }
});
